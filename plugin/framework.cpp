// Traces of frameworks: launchers' variables, the command line, loaded operators.
#include "plugin/framework.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string_view>
#include <vector>

#include "plugin/loaded_object.h"
#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/text_file.h"

namespace sdp4bit {
namespace {

constexpr const char* kWord = "deepspeed";

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char character) { return static_cast<char>(std::tolower(character)); });
  return result;
}

bool has_word(const std::string& text) {
  return lower(text).find(kWord) != std::string::npos;
}

/// Of DeepSpeed's launcher and builder, and of Accelerate's plugin for it. A path that merely leads through a
/// folder of that name (PATH, PWD) says nothing, so only names and this one value count.
bool is_variable_of_deepspeed(const std::string& variable) {
  constexpr std::array kNames{"DS_ACCELERATOR=", "DS_BUILD_", "DS_SKIP_CUDA_CHECK=", "DLTS_HOSTFILE="};
  const std::string name = variable.substr(0, variable.find('='));
  if (has_word(name)) return lower(variable.substr(name.size())) != "=false";
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](const char* known) { return variable.rfind(known, 0) == 0; });
}

std::vector<std::string> command_line() {
  const std::string text = read_text_file("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::size_t start = 0; start < text.size(); start += arguments.back().size() + 1) {
    arguments.emplace_back(text.c_str() + start);  // each ends in a zero
  }
  return arguments;
}

/// The path of the first object that speaks of DeepSpeed: no allocation while the loader's list is locked.
std::vector<std::string> telling_objects() {
  std::array<char, 512> found{};
  for_each_loaded_object([&](const LoadedObject& object) {
    if (found[0] == '\0' && ::strcasestr(object.path(), kWord)) {
      std::strncpy(found.data(), object.path(), found.size() - 1);
    }
  });
  if (found[0] == '\0') return {};
  return {found.data()};
}

}  // namespace

std::string find_deepspeed(const FrameworkClues& clues) {
  for (const std::string& variable : clues.variables) {
    if (is_variable_of_deepspeed(variable)) return variable;
  }
  for (const std::string& argument : clues.arguments) {
    if (has_word(argument)) return argument;
  }
  for (const std::string& object : clues.loaded_objects) {
    if (has_word(object)) return object;
  }
  return "";
}

bool pads_gradients() {
  switch (config().framework) {
    case Framework::deepspeed:
      return true;
    case Framework::other:
      return false;
    case Framework::automatic:
      break;
  }
  const std::vector<std::string> variables = environment_variables();
  const std::vector<std::string> arguments = command_line(), objects = telling_objects();
  const std::string trace =
      find_deepspeed({.variables = variables, .arguments = arguments, .loaded_objects = objects});
  if (!trace.empty()) log_info("DeepSpeed is in this process: %s", trace.c_str());
  return !trace.empty();
}

}  // namespace sdp4bit
