// The project's own source files as text, for tests of how the tree is built.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace structure {

struct SourceFile {
  std::string path;  // from the root of the project, with forward slashes
  std::string text;
  std::string code;  // the text with comments and the insides of strings blanked out, line by line
};

// The files below `folder` whose names end in one of `extensions`, in order of path.
std::vector<SourceFile> files_below(const std::string& folder, const std::vector<std::string>& extensions);

// C, C++ and CUDA.
inline const std::vector<std::string> kCode{".c", ".h", ".cpp", ".cu", ".cuh"};

// "path:line" of each line of `file.code` that matches the regular expression.
std::vector<std::string> lines_matching(const SourceFile& file, const std::string& expression);

}  // namespace structure
