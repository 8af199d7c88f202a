// What a PTX text says: images, functions, variables, instructions. No meaning is attached to opcodes here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sandbox/ptx/syntax_space.h"

namespace sandbox::ptx {

/// How a register is stored: predicates are one bit a lane, other classes the given number of bits.
enum class RegisterClass : std::uint8_t { predicate, b16, b32, b64, b128 };

struct Function;
struct Image;

struct Initializer {
  enum class Kind : std::uint8_t { integer, floating, address };
  Kind kind = Kind::integer;
  std::uint64_t bits = 0;   // integer: the value; floating: the bits of a double
  std::string_view symbol;  // address
  std::int64_t offset = 0;
  std::uint64_t mask = ~std::uint64_t{0};  // 0xFF00(symbol): that byte of the address
};

struct Variable {
  std::string_view name;
  Space space = Space::global;
  std::string_view type;            // "b8", "u64", ...
  std::uint32_t element_bytes = 1;  // of one element, vectors included
  std::uint64_t bytes = 0;          // 0: an extern array of unknown size
  std::uint32_t align = 1;
  bool external = false;
  bool visible = false;  // .visible, .weak, .common
  std::vector<Initializer> initializers;
  const Image* image = nullptr;
};

struct Operand {
  enum class Kind : std::uint8_t {
    none,
    reg,
    integer,
    float32,
    float64,
    special,
    symbol,
    label,
    address,
    vector,
    sink
  };
  Kind kind = Kind::none;
  bool negated = false;                // !%p
  int reg = -1;                        // reg; address: the base, or -1
  int second = -1;                     // d|p: the predicate p
  std::uint64_t bits = 0;              // numbers; label: its index
  std::int64_t offset = 0;             // address, symbol
  std::string_view name;               // special, symbol, unresolved address
  const Variable* variable = nullptr;  // symbol or address of a variable of the body
  std::uint32_t first = 0, count = 0;  // vector: elements in Body::elements
};

struct Instruction {
  std::string_view opcode;  // "ld.global.nc.v4.f32"
  int guard = -1;
  bool guard_negated = false;
  std::vector<Operand> operands;
  std::uint32_t line = 0;  // of the PTX text
  std::uint16_t source_file = 0;
  std::uint32_t source_line = 0;
  // call: (returns) target (arguments) prototype
  std::vector<Operand> returns, arguments;
};

struct Register {
  std::string_view name;
  RegisterClass kind;
};

struct Prototype {
  std::vector<Variable> returns, parameters;
};

struct Body {
  std::vector<Instruction> code;
  std::vector<Operand> elements;
  std::vector<Register> registers;
  std::vector<std::unique_ptr<Variable>> variables;
  std::vector<std::uint32_t> labels;               // label -> index into code
  std::vector<std::vector<std::uint32_t>> tables;  // .branchtargets -> labels
  std::unordered_map<std::string_view, Prototype> prototypes;
};

struct Function {
  std::string_view name;
  bool entry = false;
  bool defined = false;
  bool visible = false;
  std::vector<std::unique_ptr<Variable>> returns, parameters;
  std::string_view text;  // between the braces
  std::uint32_t first_line = 0;
  int max_threads = 0;
  const Image* image = nullptr;

  /// The parsed body; parsed at the first call. Thread-safe.
  const Body& body() const;

 private:
  mutable std::once_flag parsed_;
  mutable std::unique_ptr<Body> body_;
};

/// One PTX text.
struct Image {
  std::string text;
  int target = 0;  // .target sm_80
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<std::unique_ptr<Variable>> variables;
  std::unordered_map<std::string_view, Function*> function_by_name;
  std::unordered_map<std::string_view, Variable*> variable_by_name;
  std::map<unsigned, std::string_view> files;
};

/// Parses the module level of a PTX text; bodies are only delimited.
std::unique_ptr<Image> parse_image(std::string text);
/// Parses one body.
std::unique_ptr<Body> parse_body(const Function& function);

/// Bytes of "b8", "f32", "f16x2", "pred" (0), ...; -1 for an unknown type.
int type_bytes(std::string_view type);

}  // namespace sandbox::ptx
