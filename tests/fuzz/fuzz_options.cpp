// Any environment: it is taken or refused with a line, and what is in force can be written down and read
// again.
#include "plugin/options.h"

#include "tests/fuzz/input.h"

using namespace sdp4bit;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  std::vector<std::string> texts;
  while (!input.empty() && texts.size() < 64) {
    // The first byte chooses the variable, so that the fuzzer need not learn their names.
    const auto table = option_table();
    const std::size_t choice = input.take<std::uint8_t>();
    const std::string text = input.take_text();
    texts.push_back(choice < table.size() ? std::string(table[choice].name) + "=" + text : text);
  }
  std::vector<const char*> environment;
  for (const std::string& text : texts) environment.push_back(text.c_str());
  const ParsedConfig parsed = parse_config(environment);
  for (const Option& option : option_table()) {
    const std::string value = option.print(parsed.config);
    Config again = parsed.config;
    fuzz::require(value.empty() || option.parse(value, again), "what is printed is accepted");
    fuzz::require(option.print(again) == value, "and means the same");
  }
  for (const std::string& complaint : parsed.complaints)
    fuzz::require(!complaint.empty(), "a complaint says something");
  return 0;
}
