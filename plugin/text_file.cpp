// Reading until the end, whatever size a file says it has.
#include "plugin/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sdp4bit {

std::string read_text_file(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t bytes = ::read(file, part.data(), part.size());
    if (bytes > 0) text.append(part.data(), static_cast<std::size_t>(bytes));
    if (bytes == 0 || (bytes < 0 && errno != EINTR)) break;
  }
  ::close(file);
  return text;
}

}  // namespace sdp4bit
