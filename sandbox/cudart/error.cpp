// The thread's last error, and the lines that the runtime stand-in writes to stderr.
#include "error.h"

#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace sandbox::cudart {
namespace {

thread_local cudaError_t t_last_error = cudaSuccess;

void say_line(const char* format, va_list arguments) {
  std::array<char, 2048> line{};
  const int head = std::snprintf(line.data(), line.size(), "sandbox: ");
  const int body =
      std::vsnprintf(line.data() + head, line.size() - static_cast<std::size_t>(head) - 1, format, arguments);
  std::size_t length = static_cast<std::size_t>(head) + static_cast<std::size_t>(body < 0 ? 0 : body);
  if (length > line.size() - 2) length = line.size() - 2;
  line[length++] = '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), length);
}

}  // namespace

void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say_line(format, arguments);
  va_end(arguments);
}

void fail(cudaError_t code) {
  throw Failure{code};
}

void fail(cudaError_t code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say_line(format, arguments);
  va_end(arguments);
  throw Failure{code};
}

cudaError_t remember(cudaError_t code) {
  if (code != cudaSuccess) t_last_error = code;
  return code;
}

cudaError_t last_error() {
  return t_last_error;
}
void forget_last_error() {
  t_last_error = cudaSuccess;
}

int refuse(const char* function) {
  say("%s is not implemented", function);
  return remember(cudaErrorNotSupported);
}

}  // namespace sandbox::cudart
