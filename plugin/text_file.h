// A small file as text. By read(): streams would bring their locales into every process that has us
// preloaded.
#pragma once

#include <string>

namespace sdp4bit {

/// All of the file; empty where it cannot be read. Files of /proc have no size to ask for first.
std::string read_text_file(const char* path);

}  // namespace sdp4bit
