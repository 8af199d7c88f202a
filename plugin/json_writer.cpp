// Texts and numbers as JSON writes them; see json_writer.h.
#include "plugin/json_writer.h"

#include <cmath>
#include <cstdio>

namespace sdp4bit {
namespace {

/// Bytes that follow the first one of a character; -1 where no character begins so.
int following_bytes(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xc2 && first < 0xe0) return 1;
  if (first >= 0xe0 && first < 0xf0) return 2;
  if (first >= 0xf0 && first < 0xf5) return 3;
  return -1;
}

std::string quoted(std::string_view text) {
  std::string quoted_text = "\"";
  for (const char character : as_utf8(text)) {
    if (character == '"' || character == '\\') {
      quoted_text += '\\';
      quoted_text += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      char escape[8];
      (void)std::snprintf(escape, sizeof escape, "\\u%04x",
                          static_cast<unsigned>(static_cast<unsigned char>(character)));
      quoted_text += escape;
    } else {
      quoted_text += character;
    }
  }
  return quoted_text + '"';
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    const int more = following_bytes(first);
    if (more < 0 || text.size() - i <= static_cast<std::size_t>(more)) return false;
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[++i]);
      const bool overlong = k == 1 && ((first == 0xe0 && next < 0xa0) || (first == 0xf0 && next < 0x90));
      const bool beyond = k == 1 && ((first == 0xed && next >= 0xa0) || (first == 0xf4 && next >= 0x90));
      if (next < 0x80 || next >= 0xc0 || overlong || beyond) return false;
    }
  }
  return true;
}

std::string as_utf8(std::string_view text) {
  std::string copy(text);
  if (is_utf8(text)) return copy;
  for (char& character : copy) {
    if (static_cast<unsigned char>(character) >= 0x80) character = '?';
  }
  return copy;
}

void JsonWriter::value(std::string_view key, std::string_view text) {
  raw(key, quoted(text));
}
void JsonWriter::value(std::string_view key, std::uint64_t number) {
  raw(key, std::to_string(number));
}
void JsonWriter::value(std::string_view key, std::int64_t number) {
  raw(key, std::to_string(number));
}
void JsonWriter::value(std::string_view key, bool flag) {
  raw(key, flag ? "true" : "false");
}
void JsonWriter::value(std::string_view key, double number) {
  char text[40];
  (void)std::snprintf(text, sizeof text, "%.9g", number);
  raw(key, std::isfinite(number) ? text : "null");
}

void JsonWriter::begin(std::string_view key) {
  if (!first_) text_ += ',';
  if (depth_ > 0) text_ += '\n' + std::string(2 * static_cast<std::size_t>(depth_), ' ');
  if (!key.empty()) text_ += quoted(key) + ": ";
  first_ = false;
}

void JsonWriter::raw(std::string_view key, std::string_view text) {
  begin(key);
  text_ += text;
}

void JsonWriter::open(std::string_view key, char bracket) {
  begin(key);
  text_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) text_ += '\n' + std::string(2 * static_cast<std::size_t>(depth_), ' ');
  text_ += bracket;
  first_ = false;
}

}  // namespace sdp4bit
