// The parser of function bodies: scopes, registers, labels and instructions.
#include <algorithm>
#include <charconv>

#include "sandbox/ptx/declarations.h"
#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/syntax.h"

namespace sandbox::ptx {
namespace {

constexpr std::int64_t kMostRegisters = 1 << 20;  // of one declaration: a thousand times what compilers write

/// Names of one { } of a body; inline assembly reuses names in blocks of its own.
struct Scope {
  std::unordered_map<std::string_view, int> registers;
  std::unordered_map<std::string_view, std::pair<int, int>>
      ranges;  // %r<45>: prefix -> first register, count
  std::unordered_map<std::string_view, const Variable*> variables;
  std::unordered_map<std::string_view, std::uint32_t> labels;
  std::unordered_map<std::string_view, std::uint32_t> tables;
};

class BodyParser {
 public:
  BodyParser(const Function& function, Body& body)
      : function_(function), body_(body), lexer_(function.text, function.first_line) {}

  void parse() {
    open_scope();
    for (const auto& parameter : function_.parameters)
      scopes_.back().variables[parameter->name] = parameter.get();
    for (const auto& value : function_.returns) scopes_.back().variables[value->name] = value.get();
    while (lexer_.peek().kind != Token::Kind::end) statement();
    close_scope();
    if (!scopes_.empty()) lexer_.fail("a block has no end");
  }

 private:
  void open_scope() { scopes_.emplace_back(); }

  void close_scope() {
    const Scope& scope = scopes_.back();
    for (const auto& [name, label] : scope.labels) {
      if (body_.labels[label] != kUnplaced) continue;
      // Not placed here: a label of the enclosing block.
      if (scopes_.size() == 1) lexer_.fail("the label " + std::string(name) + " does not exist");
      auto& outer = scopes_[scopes_.size() - 2].labels;
      const auto [known, fresh] = outer.emplace(name, label);
      if (!fresh) aliases_.emplace_back(label, known->second);
    }
    if (scopes_.size() == 1)
      for (auto alias = aliases_.rbegin(); alias != aliases_.rend(); ++alias)
        body_.labels[alias->first] = body_.labels[alias->second];
    scopes_.pop_back();
  }

  std::uint32_t label(std::string_view name) {
    auto& labels = scopes_.back().labels;
    const auto [entry, fresh] = labels.emplace(name, static_cast<std::uint32_t>(body_.labels.size()));
    if (fresh) body_.labels.push_back(kUnplaced);
    return entry->second;
  }

  void place(std::string_view name) {
    body_.labels[label(name)] = static_cast<std::uint32_t>(body_.code.size());
  }

  void statement() {
    const Token& token = lexer_.peek();
    if (lexer_.accept(';')) return;
    if (lexer_.accept('{')) return open_scope();
    if (lexer_.accept('}')) {
      if (scopes_.size() == 1) lexer_.fail("unexpected '}'");
      return close_scope();
    }
    if (token.kind == Token::Kind::directive) return directive(lexer_.next().text);
    if (token.is('@')) return instruction(lexer_.peek().line);
    const Token word = lexer_.expect_word();
    if (lexer_.accept(':')) return labelled(word);
    instruction_after(word, {});
  }

  void labelled(const Token& name) {
    if (lexer_.peek().is_directive("callprototype")) {
      lexer_.next();
      Prototype& prototype = body_.prototypes[name.text];
      for (auto& variable : parse_parameters(lexer_)) prototype.returns.push_back(std::move(*variable));
      lexer_.expect_word();
      for (auto& variable : parse_parameters(lexer_)) prototype.parameters.push_back(std::move(*variable));
      while (!lexer_.accept(';')) lexer_.next();
    } else if (lexer_.peek().is_directive("branchtargets")) {
      lexer_.next();
      scopes_.back().tables[name.text] = static_cast<std::uint32_t>(body_.tables.size());
      std::vector<std::uint32_t> targets;
      do targets.push_back(label(lexer_.expect_word().text));
      while (lexer_.accept(','));
      body_.tables.push_back(std::move(targets));
      lexer_.expect(';');
    } else {
      place(name.text);
    }
  }

  void directive(std::string_view word) {
    if (word == "reg") {
      registers();
    } else if (word == "loc") {
      source_file_ = static_cast<std::uint16_t>(parse_integer(lexer_));
      source_line_ = static_cast<std::uint32_t>(parse_integer(lexer_));
      parse_integer(lexer_);
      // ", function_name name + offset, inlined_at file line column"
      while (lexer_.accept(',')) {
        lexer_.next();
        while (lexer_.peek().kind == Token::Kind::integer || lexer_.peek().is('+') ||
               (lexer_.peek().kind == Token::Kind::word && lexer_.peek().text.starts_with("$L__info_string")))
          lexer_.next();
      }
    } else if (word == "pragma") {
      while (!lexer_.accept(';')) lexer_.next();
    } else if (word == "attribute") {
      lexer_.expect('(');
      while (!lexer_.accept(')')) lexer_.next();
    } else if (const auto space = space_of(word)) {
      for (auto& variable : parse_variables(lexer_, *space, true)) {
        variable->image = function_.image;
        scopes_.back().variables[variable->name] = variable.get();
        body_.variables.push_back(std::move(variable));
      }
      lexer_.expect(';');
    } else {
      lexer_.fail("unknown directive ." + std::string(word) + " in a function");
    }
  }

  void registers() {
    const Token type = lexer_.next();
    if (type.kind != Token::Kind::directive) lexer_.fail("expected a register type");
    const int bytes = type_bytes(type.text);
    if (bytes < 0) lexer_.fail("registers of type ." + std::string(type.text) + " are not supported");
    const RegisterClass kind = bytes == 0   ? RegisterClass::predicate
                               : bytes <= 2 ? RegisterClass::b16
                               : bytes == 4 ? RegisterClass::b32
                               : bytes == 8 ? RegisterClass::b64
                                            : RegisterClass::b128;
    do {
      const auto name = lexer_.expect_word().text;
      const int first = static_cast<int>(body_.registers.size());
      if (lexer_.accept('<')) {
        const std::int64_t count = parse_integer(lexer_);
        lexer_.expect('>');
        if (count < 0 || count > kMostRegisters) lexer_.fail("too many registers");
        body_.registers.resize(body_.registers.size() + static_cast<std::size_t>(count),
                               Register{name, kind});
        scopes_.back().ranges[name] = {first, static_cast<int>(count)};
      } else {
        body_.registers.push_back({name, kind});
        scopes_.back().registers[name] = first;
      }
    } while (lexer_.accept(','));
    lexer_.expect(';');
  }

  int find_register(std::string_view name) {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    int number = -1;
    if (digits < name.size()) std::from_chars(name.data() + digits, name.data() + name.size(), number);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->registers.find(name); found != scope->registers.end())
        return found->second;
      if (number < 0) continue;
      const auto range = scope->ranges.find(name.substr(0, digits));
      if (range != scope->ranges.end() && number < range->second.second) return range->second.first + number;
    }
    return -1;
  }

  const Variable* find_variable(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->variables.find(name); found != scope->variables.end())
        return found->second;
    return nullptr;
  }

  Operand word_operand(const Token& word) {
    Operand operand;
    operand.name = word.text;
    if (word.text == "_") {
      operand.kind = Operand::Kind::sink;
    } else if (operand.reg = find_register(word.text); operand.reg >= 0) {
      operand.kind = Operand::Kind::reg;
    } else if (word.text == "WARP_SZ") {
      operand.kind = Operand::Kind::integer;
      operand.bits = 32;
    } else if (word.text[0] == '%') {
      operand.kind = Operand::Kind::special;
    } else {
      operand.kind = Operand::Kind::symbol;
      operand.variable = find_variable(word.text);
    }
    return operand;
  }

  std::int64_t displacement() {
    if (lexer_.accept('+')) return parse_integer(lexer_);
    return lexer_.peek().is('-') ? parse_integer(lexer_) : 0;
  }

  Operand address_operand() {
    Operand operand;
    if (lexer_.peek().kind == Token::Kind::word) {
      operand = word_operand(lexer_.next());
      if (operand.kind != Operand::Kind::reg && operand.kind != Operand::Kind::symbol)
        lexer_.fail("bad address");
      operand.offset = displacement();
    } else {
      operand.offset = parse_integer(lexer_);
    }
    operand.kind = Operand::Kind::address;
    lexer_.expect(']');
    return operand;
  }

  Operand vector_operand() {
    std::vector<Operand> elements;
    while (!lexer_.accept('}')) {
      elements.push_back(operand());
      lexer_.accept(',');
    }
    Operand vector;
    vector.kind = Operand::Kind::vector;
    vector.first = static_cast<std::uint32_t>(body_.elements.size());
    vector.count = static_cast<std::uint32_t>(elements.size());
    body_.elements.insert(body_.elements.end(), elements.begin(), elements.end());
    return vector;
  }

  Operand operand() {
    if (lexer_.accept('[')) return address_operand();
    if (lexer_.accept('{')) return vector_operand();
    if (lexer_.accept('!')) {
      Operand negated = operand();
      negated.negated = true;
      return negated;
    }
    const bool minus = lexer_.accept('-');
    const Token token = lexer_.peek();
    Operand value;
    switch (token.kind) {
      case Token::Kind::integer:
        value.kind = Operand::Kind::integer;
        value.bits = static_cast<std::uint64_t>(parse_integer(lexer_));
        if (minus) value.bits = 0 - value.bits;
        return value;
      case Token::Kind::float32:
      case Token::Kind::float64:
        lexer_.next();
        value.kind = token.kind == Token::Kind::float32 ? Operand::Kind::float32 : Operand::Kind::float64;
        value.bits = token.bits;
        if (minus)
          value.bits ^= token.kind == Token::Kind::float32 ? std::uint64_t{1} << 31 : std::uint64_t{1} << 63;
        return value;
      case Token::Kind::word:
        lexer_.next();
        value = word_operand(token);
        if (minus) lexer_.fail("a register cannot have a sign");
        if (value.kind == Operand::Kind::symbol) value.offset = displacement();
        if (lexer_.accept('|')) {
          const Operand second = operand();
          value.second = second.kind == Operand::Kind::reg ? second.reg : -1;
          if (value.kind == Operand::Kind::sink) value.reg = -1;
        }
        return value;
      default:
        lexer_.fail("expected an operand");
    }
  }

  void instruction(std::uint32_t) {
    Instruction guarded;
    lexer_.expect('@');
    guarded.guard_negated = lexer_.accept('!');
    const Token name = lexer_.expect_word();
    guarded.guard = find_register(name.text);
    if (guarded.guard < 0) lexer_.fail("unknown predicate " + std::string(name.text));
    instruction_after(lexer_.expect_word(), std::move(guarded));
  }

  void instruction_after(const Token& opcode, Instruction instruction) {
    instruction.opcode = opcode.text;
    instruction.line = opcode.line;
    instruction.source_file = source_file_;
    instruction.source_line = source_line_;
    if (opcode.text == "call" || opcode.text.starts_with("call.")) {
      call_operands(instruction);
    } else {
      const bool branch = opcode.text == "bra" || opcode.text.starts_with("bra.");
      const bool indexed = opcode.text.starts_with("brx");
      while (!lexer_.peek().is(';')) {
        Operand value = operand();
        if (value.kind == Operand::Kind::symbol && branch) {
          value.kind = Operand::Kind::label;
          value.bits = label(value.name);
        } else if (value.kind == Operand::Kind::symbol && indexed) {
          value.kind = Operand::Kind::label;
          value.bits = table(value.name);
        }
        instruction.operands.push_back(value);
        if (!lexer_.accept(',')) break;
      }
    }
    lexer_.expect(';');
    body_.code.push_back(std::move(instruction));
  }

  std::uint32_t table(std::string_view name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->tables.find(name); found != scope->tables.end()) return found->second;
    lexer_.fail("unknown branch targets " + std::string(name));
  }

  void operand_list(std::vector<Operand>& operands) {
    while (!lexer_.accept(')')) {
      operands.push_back(operand());
      lexer_.accept(',');
    }
  }

  void call_operands(Instruction& call) {
    if (lexer_.accept('(')) {
      operand_list(call.returns);
      lexer_.expect(',');
    }
    call.operands.push_back(operand());
    if (lexer_.accept(',')) {
      if (lexer_.accept('(')) {
        operand_list(call.arguments);
        if (lexer_.accept(',')) call.operands.push_back(operand());
      } else {
        call.operands.push_back(operand());
      }
    }
  }

  static constexpr std::uint32_t kUnplaced = ~std::uint32_t{0};

  const Function& function_;
  Body& body_;
  Lexer lexer_;
  std::vector<Scope> scopes_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> aliases_;  // label of an inner block -> the outer one
  std::uint16_t source_file_ = 0;
  std::uint32_t source_line_ = 0;
};

}  // namespace

std::unique_ptr<Body> parse_body(const Function& function) {
  auto body = std::make_unique<Body>();
  BodyParser(function, *body).parse();
  return body;
}

}  // namespace sandbox::ptx
