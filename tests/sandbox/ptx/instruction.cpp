// The PTX text around an instruction under test.
#include "instruction.h"

namespace ptx_test {
namespace {

struct Kind {
  const char* register_type;
  const char* memory_type;
  int bytes;
};

Kind describe(char letter) {
  switch (letter) {
    case 'p':
      return {"pred", "u32", 4};
    case 'c':
      return {"b16", "u8", 1};
    case 'h':
      return {"b16", "b16", 2};
    case 'w':
      return {"b32", "b32", 4};
    case 'l':
      return {"b64", "b64", 8};
    case 'f':
      return {"f32", "f32", 4};
    default:
      return {"f64", "f64", 8};
  }
}

std::string substitute(const std::string& body) {
  std::string text;
  for (std::size_t at = 0; at < body.size(); ++at) {
    if (body[at] == '$') {
      text += body[at + 1] == 'r' ? "%result" : std::string("%operand") + body[at + 1];
      ++at;
    } else {
      text += body[at];
    }
  }
  return text;
}

}  // namespace

std::string kernel_text(const std::string& body, const std::vector<char>& operand_kinds, char result_kind) {
  std::ostringstream text;
  const Kind result = describe(result_kind);
  text << ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry test(.param .u64 output, .param "
          ".u32 count";
  for (std::size_t index = 0; index < operand_kinds.size(); ++index) text << ", .param .u64 input" << index;
  text << ")\n{\n"
       << "  .reg .b32 %block, %threads, %thread, %index, %limit, %flag, %t<4>;\n"
       << "  .reg .b64 %address, %offset, %w<4>;\n  .reg .b16 %h<4>;\n  .reg .pred %done, %p<4>;\n"
       << "  .reg ." << result.register_type << " %result;\n";
  for (std::size_t index = 0; index < operand_kinds.size(); ++index)
    text << "  .reg ." << describe(operand_kinds[index]).register_type << " %operand" << index << ";\n";
  text << "  mov.u32 %block, %ctaid.x;\n  mov.u32 %threads, %ntid.x;\n  mov.u32 %thread, %tid.x;\n"
       << "  mad.lo.s32 %index, %block, %threads, %thread;\n  ld.param.u32 %limit, [count];\n"
       << "  setp.ge.u32 %done, %index, %limit;\n  @%done bra FINISH;\n";
  const auto address = [&](const std::string& parameter, int bytes) {
    text << "  ld.param.u64 %address, [" << parameter << "];\n  cvta.to.global.u64 %address, %address;\n"
         << "  mul.wide.u32 %offset, %index, " << bytes << ";\n  add.s64 %address, %address, %offset;\n";
  };
  for (std::size_t index = 0; index < operand_kinds.size(); ++index) {
    const Kind kind = describe(operand_kinds[index]);
    const bool predicate = operand_kinds[index] == 'p';
    address("input" + std::to_string(index), kind.bytes);
    text << "  ld.global." << kind.memory_type << (predicate ? " %flag" : " %operand" + std::to_string(index))
         << ", [%address];\n";
    if (predicate) text << "  setp.ne.u32 %operand" << index << ", %flag, 0;\n";
  }
  text << "  " << substitute(body) << "\n";
  address("output", result.bytes);
  if (result_kind == 'p') text << "  selp.u32 %flag, 1, 0, %result;\n";
  text << "  st.global." << result.memory_type << " [%address], "
       << (result_kind == 'p' ? "%flag" : "%result") << ";\n"
       << "FINISH:\n  ret;\n}\n";
  return text.str();
}

}  // namespace ptx_test
