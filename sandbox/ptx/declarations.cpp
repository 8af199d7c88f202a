// Variables, parameters and initializers.
#include "sandbox/ptx/declarations.h"

#include <algorithm>
#include <bit>

namespace sandbox::ptx {
namespace {

// More than any compiler writes: texts that ask for it are damaged, and must not take the machine's memory or
// stack.
constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 40;  // bytes
constexpr int kDeepestNesting = 64;                                 // of parentheses and braces

/// Counts how deep a parser is in itself.
class Nesting {
 public:
  explicit Nesting(Lexer& lexer) {
    if (++depth > kDeepestNesting) {
      --depth;
      lexer.fail("nested too deeply");
    }
  }
  ~Nesting() { --depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  static thread_local int depth;
};
thread_local int Nesting::depth = 0;

std::uint64_t bits_of_float(const Token& token) {
  if (token.kind == Token::Kind::float32)
    return std::bit_cast<std::uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(token.bits))));
  return token.bits;
}

Initializer parse_element(Lexer& lexer) {
  const Nesting nesting(lexer);
  Initializer value;
  const bool minus = lexer.accept('-');
  const Token token = lexer.peek();
  switch (token.kind) {
    case Token::Kind::float32:
    case Token::Kind::float64:
      lexer.next();
      value.kind = Initializer::Kind::floating;
      value.bits = bits_of_float(token) ^ (minus ? std::uint64_t{1} << 63 : 0);
      return value;
    case Token::Kind::integer:
      lexer.next();
      value.bits = minus ? 0 - token.bits : token.bits;
      if (lexer.accept('(')) {  // mask(address)
        const std::uint64_t mask = value.bits;
        value = parse_element(lexer);
        value.mask = mask;
        lexer.expect(')');
      }
      return value;
    case Token::Kind::word:
      lexer.next();
      value.kind = Initializer::Kind::address;
      if (token.text == "generic" && lexer.accept('(')) {
        value.symbol = lexer.expect_word().text;
        lexer.expect(')');
      } else {
        value.symbol = token.text;
      }
      if (lexer.accept('+'))
        value.offset = parse_integer(lexer);
      else if (lexer.peek().is('-'))
        value.offset = parse_integer(lexer);
      return value;
    default:
      lexer.fail("expected an initial value");
  }
}

void parse_initializers(Lexer& lexer, std::vector<Initializer>& values) {
  const Nesting nesting(lexer);
  if (!lexer.accept('{')) {
    values.push_back(parse_element(lexer));
    return;
  }
  while (!lexer.accept('}')) {
    parse_initializers(lexer, values);
    lexer.accept(',');
  }
}

// Constant expressions are 64 bits wide and wrap around.
std::uint64_t parse_sum(Lexer& lexer);

std::uint64_t parse_factor(Lexer& lexer) {
  const Nesting nesting(lexer);
  if (lexer.accept('-')) return 0 - parse_factor(lexer);
  if (lexer.accept('+')) return parse_factor(lexer);
  if (lexer.accept('(')) {
    const std::uint64_t value = parse_sum(lexer);
    lexer.expect(')');
    return value;
  }
  if (lexer.peek().kind == Token::Kind::word && lexer.peek().text == "WARP_SZ") {
    lexer.next();
    return 32;
  }
  if (lexer.peek().kind != Token::Kind::integer) lexer.fail("expected an integer");
  return lexer.next().bits;
}

std::uint64_t parse_product(Lexer& lexer) {
  std::uint64_t value = parse_factor(lexer);
  while (lexer.accept('*')) value *= parse_factor(lexer);
  return value;
}

std::uint64_t parse_sum(Lexer& lexer) {
  std::uint64_t value = parse_product(lexer);
  for (;;) {
    if (lexer.accept('+'))
      value += parse_product(lexer);
    else if (lexer.accept('-'))
      value -= parse_product(lexer);
    else
      return value;
  }
}

struct Shape {
  std::string_view type;
  std::uint32_t align = 0;
  std::uint32_t vector = 1;
};

Shape parse_shape(Lexer& lexer) {
  Shape shape;
  while (lexer.peek().kind == Token::Kind::directive) {
    const std::string_view word = lexer.peek().text;
    if (word == "align") {
      lexer.next();
      shape.align = static_cast<std::uint32_t>(parse_integer(lexer));
      if (!std::has_single_bit(shape.align)) lexer.fail("an alignment is no power of two");
    } else if (word == "v2" || word == "v4" || word == "v8") {
      lexer.next();
      shape.vector = static_cast<std::uint32_t>(word[1] - '0');
    } else if (word == "ptr" || space_of(word) || word == "unified") {  // what a pointer parameter points to
      lexer.next();
    } else if (word == "attribute") {
      lexer.next();
      lexer.expect('(');
      while (!lexer.accept(')')) lexer.next();
    } else if (type_bytes(word) >= 0) {
      shape.type = lexer.next().text;
    } else {
      lexer.fail("unknown directive ." + std::string(word) + " in a declaration");
    }
  }
  if (shape.type.empty()) lexer.fail("a declaration has no type");
  return shape;
}

}  // namespace

int type_bytes(std::string_view type) {
  if (type == "pred") return 0;
  if (type == "b8" || type == "u8" || type == "s8" || type == "e4m3" || type == "e5m2") return 1;
  if (type == "b16" || type == "u16" || type == "s16" || type == "f16" || type == "bf16" ||
      type == "e4m3x2" || type == "e5m2x2")
    return 2;
  if (type == "b32" || type == "u32" || type == "s32" || type == "f32" || type == "f16x2" ||
      type == "bf16x2" || type == "tf32" || type == "u16x2" || type == "s16x2")
    return 4;
  if (type == "b64" || type == "u64" || type == "s64" || type == "f64") return 8;
  if (type == "b128") return 16;
  return -1;
}

std::optional<Space> space_of(std::string_view directive) {
  if (directive == "global") return Space::global;
  if (directive == "const") return Space::constant;
  if (directive == "shared") return Space::shared;
  if (directive == "local") return Space::local;
  if (directive == "param") return Space::param;
  return std::nullopt;
}

std::int64_t parse_integer(Lexer& lexer) {
  return static_cast<std::int64_t>(parse_sum(lexer));
}

std::vector<std::unique_ptr<Variable>> parse_variables(Lexer& lexer, Space space, bool list) {
  const Shape shape = parse_shape(lexer);
  std::vector<std::unique_ptr<Variable>> variables;
  do {
    auto variable = std::make_unique<Variable>();
    variable->name = lexer.expect_word().text;
    variable->space = space;
    variable->type = shape.type;
    variable->element_bytes = static_cast<std::uint32_t>(type_bytes(shape.type)) * shape.vector;
    // Of a predicate, which device functions take in a register, that is no byte.
    variable->align = shape.align ? shape.align : std::max(variable->element_bytes, 1u);
    std::uint64_t count = 1;
    bool open = false;
    while (lexer.accept('[')) {
      if (lexer.accept(']')) {
        open = true;
        continue;
      }
      const std::uint64_t length = parse_sum(lexer);
      if (count > 0 && length > kLargestVariable / count) lexer.fail("an array is too large");
      count *= length;
      lexer.expect(']');
    }
    if (lexer.accept('=')) parse_initializers(lexer, variable->initializers);
    if (open) count = variable->initializers.size();
    variable->bytes = count * variable->element_bytes;
    variables.push_back(std::move(variable));
  } while (list && lexer.accept(','));
  return variables;
}

std::vector<std::unique_ptr<Variable>> parse_parameters(Lexer& lexer) {
  std::vector<std::unique_ptr<Variable>> parameters;
  if (!lexer.accept('(')) return parameters;
  while (!lexer.accept(')')) {
    if (lexer.peek().kind != Token::Kind::directive) lexer.fail("expected a parameter");
    const std::string_view kind = lexer.next().text;
    if (kind != "param" && kind != "reg") lexer.fail("expected .param");
    for (auto& parameter : parse_variables(lexer, Space::param, false))
      parameters.push_back(std::move(parameter));
    lexer.accept(',');
  }
  return parameters;
}

}  // namespace sandbox::ptx
