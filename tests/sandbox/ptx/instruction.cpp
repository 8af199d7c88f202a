// The PTX text around an instruction under test, and the comparison of its results.
#include "instruction.h"

#include <sstream>

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

/// An array in emulated device memory, of values of a kind.
DeviceArray<std::uint8_t> make_column(const Rows& rows, std::size_t first, std::size_t width, char kind) {
  const auto bytes = static_cast<std::size_t>(describe(kind).bytes);
  std::vector<std::uint8_t> column(rows.size() / width * bytes);
  for (std::size_t row = 0; row < rows.size() / width; ++row)
    std::memcpy(column.data() + row * bytes, &rows[row * width + first], bytes);
  return DeviceArray<std::uint8_t>(column);
}

template <class T>
bool close(T actual, T expected, const Tolerance& tolerance) {
  if (std::isnan(expected)) return tolerance.any_nan && std::isnan(actual);
  if (std::isinf(expected) || std::isnan(actual) || std::isinf(actual)) return false;
  const double exact = static_cast<double>(expected);
  const double difference = std::fabs(static_cast<double>(actual) - exact);
  return (tolerance.relative > 0 && difference <= tolerance.relative * std::fabs(exact)) ||
         (tolerance.absolute > 0 && difference <= tolerance.absolute);
}

bool matches(char kind, std::uint64_t actual, std::uint64_t expected, const Tolerance& tolerance) {
  if (actual == expected) return true;
  if (kind == 'f') return close(from_raw_bits<float>(actual), from_raw_bits<float>(expected), tolerance);
  if (kind == 'd') return close(from_raw_bits<double>(actual), from_raw_bits<double>(expected), tolerance);
  return false;
}

std::string show(char kind, std::uint64_t bits) {
  std::ostringstream stream;
  stream << std::hex << "0x" << bits;
  if (kind == 'f') stream << " (" << from_raw_bits<float>(bits) << ")";
  if (kind == 'd') stream << " (" << from_raw_bits<double>(bits) << ")";
  return stream.str();
}

template <class T>
Rows bits_of_all(std::initializer_list<T> values) {
  Rows rows;
  for (const T value : values) rows.push_back(raw_bits(value));
  return rows;
}

Rows interesting_floats() {
  const float infinity = std::numeric_limits<float>::infinity();
  return bits_of_all<float>({0.0f,
                             -0.0f,
                             1.0f,
                             -1.0f,
                             0.5f,
                             1.5f,
                             -2.5f,
                             3.5f,
                             0x1.fffffep-1f,
                             0x1.000002p0f,
                             1e-20f,
                             3.1415927f,
                             -1e10f,
                             0x1p-149f,
                             -0x1p-149f,
                             0x1.fffffcp-127f,
                             0x1p-126f,
                             -0x1.8p-127f,
                             0x1p23f,
                             0x1.000001p24f,
                             0x1p31f,
                             -0x1p31f,
                             0x1p63f,
                             0x1.fffffep127f,
                             -0x1.fffffep127f,
                             0x1p64f,
                             infinity,
                             -infinity,
                             bit_copy<float>(0x7fc00001u),
                             bit_copy<float>(0xff812345u),
                             255.5f,
                             127.5f,
                             -128.5f,
                             65535.5f,
                             0x1.4p-60f,
                             -0x1.8p90f});
}

Rows interesting_doubles() {
  const double infinity = std::numeric_limits<double>::infinity();
  return bits_of_all<double>({0.0,
                              -0.0,
                              1.0,
                              -1.0,
                              0.5,
                              1.5,
                              -2.5,
                              3.5,
                              0x1.fffffffffffffp-1,
                              0x1.0000000000001p0,
                              1e-200,
                              3.14159265358979,
                              -1e100,
                              0x1p-1074,
                              -0x1p-1074,
                              0x1.ffffffffffffep-1023,
                              0x1p-1022,
                              0x1p52,
                              0x1.00000000000008p53,
                              0x1p31,
                              -0x1p63,
                              0x1p64,
                              0x1.fffffffffffffp1023,
                              -0x1.fffffffffffffp1023,
                              infinity,
                              -infinity,
                              std::nan(""),
                              0x1.fffffep127,
                              0x1.ffffffp127,
                              0x1.000001p0,
                              0x1p-150,
                              0x1.8p-149});
}

/// All bits that a value of the kind has.
std::uint64_t bits_mask(char kind) {
  const int bits = 8 * describe(kind).bytes;
  return kind == 'p' ? 1 : ~std::uint64_t{0} >> (64 - bits);
}

}  // namespace

std::string kernel_text(const std::string& body, const std::string& operand_kinds, char result_kind) {
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

Rows interesting_bits(char kind) {
  if (kind == 'p') return {0, 1};
  if (kind == 'f') return interesting_floats();
  if (kind == 'd') return interesting_doubles();
  const std::uint64_t mask = bits_mask(kind), top = mask ^ mask >> 1;
  Rows values;
  for (const std::uint64_t bits : {0, 1, 2, 3, 7, 31, 32, 33, 64, 100}) {
    values.push_back(bits);
    values.push_back(~bits & mask);
  }
  for (const std::uint64_t bits : {top, top - 1, top + 1, std::uint64_t{0x5a5a5a5a5a5a5a5a},
                                   std::uint64_t{0x123456789abcdef0}, std::uint64_t{0x00ff00ff00ff80ff}})
    values.push_back(bits & mask);
  return values;
}

Rows default_rows(const std::string& kinds, std::size_t random_count) {
  std::vector<Rows> lists;
  std::size_t total = 1;
  for (const char kind : kinds) {
    lists.push_back(interesting_bits(kind));
    total *= lists.back().size();
  }
  Rows rows;
  const std::size_t limit = 6000;
  // A stride without common factors visits combinations evenly.
  const std::size_t stride = total > limit ? (total / limit) | 1 : 1;
  for (std::size_t index = 0; index < total; index += stride) {
    std::size_t rest = index;
    for (const Rows& list : lists) {
      rows.push_back(list[rest % list.size()]);
      rest /= list.size();
    }
  }
  std::mt19937_64 random(42);
  for (std::size_t index = 0; index < random_count; ++index)
    for (const char kind : kinds) rows.push_back(random() & bits_mask(kind));
  return rows;
}

void check_rows(const std::string& body, const Subject& subject, const Rows& rows,
                const Tolerance& tolerance) {
  const std::size_t width = subject.operand_kinds.size();
  const auto count = static_cast<std::uint32_t>(rows.size() / width);
  Program program = Program::from_text(kernel_text(body, subject.operand_kinds, subject.result_kind));
  const auto bytes = static_cast<std::size_t>(describe(subject.result_kind).bytes);
  const DeviceArray<std::uint8_t> results(count * bytes);
  std::vector<DeviceArray<std::uint8_t>> columns;
  columns.reserve(width);
  for (std::size_t index = 0; index < width; ++index)
    columns.push_back(make_column(rows, index, width, subject.operand_kinds[index]));
  std::vector<const void*> pointers{results.data()};
  for (const auto& column : columns) pointers.push_back(column.data());
  // The parameters: output, count, inputs.
  std::vector<const void*> addresses{&pointers[0], &count};
  for (std::size_t index = 0; index < width; ++index) addresses.push_back(&pointers[index + 1]);
  INFO(body);
  if (const auto fault = program.try_launch_at("test", threads((count + 127) / 128, 128), addresses)) {
    FAIL_CHECK(fault->message);
    return;
  }
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t row = 0; row < count; ++row) {
    std::uint64_t actual = 0;
    std::memcpy(&actual, results.data() + row * bytes, bytes);
    const std::uint64_t expected = subject.call(subject.function, &rows[row * width]);
    if (matches(subject.result_kind, actual, expected, tolerance)) continue;
    if (wrong++ != 0) continue;
    first = "got " + show(subject.result_kind, actual) + ", expected " + show(subject.result_kind, expected) +
            " for";
    for (std::size_t index = 0; index < width; ++index)
      first += " " + show(subject.operand_kinds[index], rows[row * width + index]);
  }
  INFO(wrong << " of " << count << " wrong, first: " << first);
  CHECK(wrong == 0);
}

}  // namespace ptx_test
