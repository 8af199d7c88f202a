// The project's own source files as text, for tests of how the tree is built.
#include "source_tree.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace structure {
namespace {

namespace fs = std::filesystem;

// Blanks comments and the insides of string and character literals, and keeps the ends of lines.
std::string without_comments(const std::string& text) {
  enum { kPlain, kLine, kBlock, kString, kCharacter } state = kPlain;
  std::string code = text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (state == kPlain) {
      if (c == '/' && (next == '/' || next == '*')) state = next == '/' ? kLine : kBlock;
      if (c == '"') state = kString;
      // Not the separator of digits, as in 1'000.
      if (c == '\'' && (i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1])))) state = kCharacter;
      if (state == kLine || state == kBlock) code[i] = ' ';
      continue;
    }
    if (c != '\n') code[i] = ' ';
    if ((state == kString || state == kCharacter) && c == '\\') {
      if (next != '\n') code[i + 1] = ' ';
      ++i;
      continue;
    }
    if (c == '\n' && state != kBlock) state = kPlain;  // also ends what was no literal after all
    if (state == kString && c == '"') code[i] = c, state = kPlain;
    if (state == kCharacter && c == '\'') code[i] = c, state = kPlain;
    if (state == kBlock && c == '*' && next == '/') {
      code[++i] = ' ';
      state = kPlain;
    }
  }
  return code;
}

}  // namespace

std::vector<SourceFile> files_below(const std::string& folder, const std::vector<std::string>& extensions) {
  const fs::path root = PROJECT_ROOT;
  std::vector<SourceFile> files;
  if (!fs::exists(root / folder)) return files;
  for (auto walk = fs::recursive_directory_iterator(root / folder);
       walk != fs::recursive_directory_iterator(); ++walk) {
    const fs::directory_entry& entry = *walk;
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && (name == "build" || name.starts_with('.'))) walk.disable_recursion_pending();
    const std::string path = entry.path().lexically_relative(root).lexically_normal().generic_string();
    const bool wanted = std::any_of(extensions.begin(), extensions.end(),
                                    [&](const std::string& extension) { return path.ends_with(extension); });
    if (!entry.is_regular_file() || !wanted) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    files.push_back({path, text, without_comments(text)});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

std::vector<std::string> lines_matching(const SourceFile& file, const std::string& expression) {
  const std::regex regex(expression, std::regex::ECMAScript | std::regex::optimize);
  std::vector<std::string> found;
  std::istringstream lines(file.code);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (std::regex_search(line, regex)) found.push_back(file.path + ":" + std::to_string(number));
  }
  return found;
}

}  // namespace structure
