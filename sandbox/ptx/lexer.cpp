// The tokens of PTX.
#include "sandbox/ptx/lexer.h"

#include <bit>
#include <charconv>
#include <cstdlib>

#include "sandbox/ptx/machine.h"

namespace sandbox::ptx {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool continues_word(char c) {
  return begins_word(c) || is_digit(c);
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

Lexer::Lexer(std::string_view text, std::uint32_t first_line) : text_(text), line_(first_line) {
  advance();
}

void Lexer::fail(const std::string& what) const {
  throw Fault{FaultKind::invalid_image, "PTX line " + std::to_string(token_.line) + ": " + what + " near '" +
                                            std::string(token_.text.substr(0, 60)) + "'"};
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
      at_ += 2;
      while (at_ + 1 < text_.size() && !(text_[at_] == '*' && text_[at_ + 1] == '/'))
        line_ += text_[at_++] == '\n';
      at_ = std::min(text_.size(), at_ + 2);
    } else if (c == '#') {  // line markers of the preprocessor
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else {
      return;
    }
  }
}

void Lexer::read_number() {
  const char* first = text_.data() + at_;
  const char* last = text_.data() + text_.size();
  const char second = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  const auto radix_number = [&](int skip, int radix) {
    const auto result = std::from_chars(first + skip, last, token_.bits, radix);
    return result.ptr;
  };
  const char* stop = first;
  token_.kind = Token::Kind::integer;
  if (*first == '0' && (second == 'f' || second == 'F') && last - first >= 10 && is_hex(first[2])) {
    token_.kind = Token::Kind::float32;
    stop = radix_number(2, 16);
  } else if (*first == '0' && (second == 'd' || second == 'D')) {
    token_.kind = Token::Kind::float64;
    stop = radix_number(2, 16);
  } else if (*first == '0' && (second == 'x' || second == 'X')) {
    stop = radix_number(2, 16);
  } else if (*first == '0' && (second == 'b' || second == 'B')) {
    stop = radix_number(2, 2);
  } else {
    stop = first;
    while (stop < last && is_digit(*stop)) ++stop;
    if (stop < last && (*stop == '.' || *stop == 'e' || *stop == 'E')) {
      double value = 0;
      stop = std::from_chars(first, last, value).ptr;
      token_.kind = Token::Kind::float64;
      token_.bits = std::bit_cast<std::uint64_t>(value);
    } else {
      const bool octal = *first == '0' && stop - first > 1;
      stop = radix_number(0, octal ? 8 : 10);
    }
  }
  while (stop < last && (*stop == 'U' || *stop == 'L')) ++stop;
  at_ = static_cast<std::size_t>(stop - text_.data());
}

void Lexer::read_word() {
  token_.kind = Token::Kind::word;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const char following = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (continues_word(c)) {
      ++at_;
    } else if (c == '.' && continues_word(following)) {  // opcode suffixes, %tid.x
      ++at_;
    } else if (c == ':' && following == ':') {  // .L1::no_allocate
      at_ += 2;
    } else {
      break;
    }
  }
}

void Lexer::advance() {
  skip_space();
  token_begin_ = at_;
  token_ = Token{};
  token_.line = line_;
  if (at_ >= text_.size()) return;
  const char c = text_[at_];
  if (is_digit(c)) {
    read_number();
  } else if (begins_word(c) && !(c == '%' && !(at_ + 1 < text_.size() && begins_word(text_[at_ + 1])))) {
    read_word();
  } else if (c == '.' && at_ + 1 < text_.size() && continues_word(text_[at_ + 1])) {
    token_.kind = Token::Kind::directive;
    ++at_;
    while (at_ < text_.size() && continues_word(text_[at_])) ++at_;
    token_.text = text_.substr(token_begin_ + 1, at_ - token_begin_ - 1);
    return;
  } else if (c == '"') {
    token_.kind = Token::Kind::string;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    token_.text = text_.substr(token_begin_ + 1, std::min(at_, text_.size()) - token_begin_ - 1);
    at_ = std::min(text_.size(), at_ + 1);
    return;
  } else {
    token_.kind = Token::Kind::punctuation;
    ++at_;
  }
  token_.text = text_.substr(token_begin_, at_ - token_begin_);
}

Token Lexer::next() {
  if (token_.kind == Token::Kind::end) fail("the text ends too early");
  Token taken = token_;
  advance();
  return taken;
}

bool Lexer::accept(char sign) {
  if (!token_.is(sign)) return false;
  advance();
  return true;
}

void Lexer::expect(char sign) {
  if (!accept(sign)) fail(std::string("expected '") + sign + "'");
}

Token Lexer::expect_word() {
  if (token_.kind != Token::Kind::word) fail("expected a name");
  return next();
}

std::string_view Lexer::skip_braces(std::uint32_t& first_line) {
  if (!token_.is('{')) fail("expected '{'");
  first_line = line_;
  const std::size_t begin = at_;
  int depth = 1;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
    } else if (c == '/' || c == '#') {
      const std::size_t before = at_;
      skip_space();
      if (at_ != before) continue;
    } else if (c == '"') {
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      break;
    }
    ++at_;
  }
  if (at_ >= text_.size()) fail("a function has no end");
  const std::string_view body = text_.substr(begin, at_ - begin);
  ++at_;
  advance();
  return body;
}

}  // namespace sandbox::ptx
