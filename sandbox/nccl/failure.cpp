// Text and output of errors.
#include "sandbox/nccl/failure.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace sandbox::nccl {

std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string result(static_cast<size_t>(length > 0 ? length : 0), '\0');
  std::vsnprintf(result.data(), result.size() + 1, format, again);
  va_end(again);
  return result;
}

void complain(const std::string& line) {
  const std::string whole = "sandbox nccl: " + line + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, whole.data(), whole.size());
}

}  // namespace sandbox::nccl
