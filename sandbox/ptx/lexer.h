// Turns PTX text into tokens, counting lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sandbox::ptx {

struct Token {
  enum class Kind : std::uint8_t { end, word, directive, integer, float32, float64, string, punctuation };
  Kind kind = Kind::end;
  std::string_view text;   // a directive without its dot, a string without its quotes
  std::uint64_t bits = 0;  // numbers
  std::uint32_t line = 0;

  bool is(char sign) const { return kind == Kind::punctuation && text[0] == sign; }
  bool is_directive(std::string_view name) const { return kind == Kind::directive && text == name; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text, std::uint32_t first_line = 1);

  const Token& peek() const { return token_; }
  /// Takes the next one; behind the last it throws.
  Token next();
  /// Takes the next token if it is that sign.
  bool accept(char sign);
  /// Takes that sign or throws.
  void expect(char sign);
  Token expect_word();
  /// Where the next token begins.
  std::size_t position() const { return token_begin_; }
  /// Skips a balanced { ... }; the next token is the opening brace. Returns the text between the braces.
  std::string_view skip_braces(std::uint32_t& first_line);
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void advance();
  void skip_space();
  void read_number();
  void read_word();

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t token_begin_ = 0;
  std::uint32_t line_ = 1;
  Token token_;
};

}  // namespace sandbox::ptx
