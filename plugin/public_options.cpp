// The functions of sdp4bit.h that tell what can be set, what is set, and what this library was built for.
#include <cuda_runtime_api.h>
#include <sdp4bit/sdp4bit.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "plugin/driver.h"
#include "plugin/export.h"
#include "plugin/options.h"
#include "plugin/public_answer.h"
#include "plugin/real_nccl.h"

using namespace sdp4bit;

namespace {

struct OptionTexts {
  std::string default_value, value;
};

/// The environment as it was at the first question or the first call.
std::vector<OptionTexts> make_texts() {
  std::vector<OptionTexts> texts;
  for (const Option& option : option_table())
    texts.push_back({option.print(Config{}), option.print(parsed_environment().config)});
  return texts;
}

std::string build_facts() {
  return std::string("version=") + SDP4BIT_VERSION + "\ncuda_runtime=" + std::to_string(CUDART_VERSION) +
         "\noldest_driver=" + std::to_string(oldest_driver(CUDART_VERSION)) +
         "\narchitectures=" + SDP4BIT_ARCHITECTURES + "\noldest_nccl=" + std::to_string(kOldestNccl) + "\n";
}

}  // namespace

SDP4BIT_EXPORT size_t sdp4bitBuildFacts(char* buffer, size_t capacity) {
  return give_text(buffer, capacity, build_facts);
}

SDP4BIT_EXPORT int sdp4bitGetOption(size_t index, sdp4bitOption* option) {
  return answer([&] {
    static const std::vector<OptionTexts>& texts = *new std::vector<OptionTexts>(make_texts());
    if (!option || option->size < sizeof option->size || index >= texts.size()) return -1;
    const Option& row = option_table()[index];
    const GivenValue& given = parsed_environment().given[index];
    const sdp4bitOption known{.size = std::min(option->size, sizeof known),
                              .name = row.name,
                              .default_value = texts[index].default_value.c_str(),
                              .accepted = row.accepts,
                              .help = row.help,
                              .value = texts[index].value.c_str(),
                              .given = given.is_set ? given.text.c_str() : nullptr,
                              .is_refused = given.is_refused ? 1 : 0,
                              .shapes_wire = row.shapes_wire ? 1 : 0};
    std::memcpy(option, &known, known.size);
    return 0;
  });
}

SDP4BIT_EXPORT int sdp4bitCheckOption(const char* name, const char* text) {
  return answer([&] {
    if (!name || !text) return -1;
    for (const Option& option : option_table()) {
      if (std::strcmp(option.name, name) != 0) continue;
      Config config;
      return option.parse(text, config) ? 1 : 0;
    }
    return -1;
  });
}
