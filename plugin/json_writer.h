// Writes JSON text: objects, arrays and values in order, with commas, indentation and escapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sdp4bit {

/// True for well-formed UTF-8: what JSON and Prometheus allow in texts.
[[nodiscard]] bool is_utf8(std::string_view text);
/// The text itself, or with '?' for every byte that is not ASCII.
[[nodiscard]] std::string as_utf8(std::string_view text);

class JsonWriter {
 public:
  /// `key` is empty inside arrays and for the outermost object.
  void open_object(std::string_view key = {}) { open(key, '{'); }
  void close_object() { close('}'); }
  void open_array(std::string_view key = {}) { open(key, '['); }
  void close_array() { close(']'); }
  void value(std::string_view key, std::string_view text);
  void value(std::string_view key, const char* text) { value(key, std::string_view(text)); }
  void value(std::string_view key, std::uint64_t number);
  void value(std::string_view key, std::int64_t number);
  void value(std::string_view key, bool flag);
  /// JSON knows neither NaN nor infinity: those become null.
  void value(std::string_view key, double number);

  /// With a final end of line.
  [[nodiscard]] std::string text() && { return std::move(text_) + "\n"; }

 private:
  void begin(std::string_view key);
  void open(std::string_view key, char bracket);
  void close(char bracket);
  void raw(std::string_view key, std::string_view text);

  std::string text_;
  int depth_ = 0;
  bool first_ = true;
};

}  // namespace sdp4bit
