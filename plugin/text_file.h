// Reads small text files without streams, whose locales would come into every process that has us preloaded.
#pragma once

#include <string>

namespace sdp4bit {

/// All of the file up to its end, whatever size it claims: files of /proc claim none. "" where it cannot be
/// opened, and what was read so far where reading fails.
[[nodiscard]] std::string read_text_file(const char* path);

}  // namespace sdp4bit
