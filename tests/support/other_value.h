// For any variable of the option table, a value that is not the one in force: tests that go over the table
// cover what is added to it.
#pragma once

#include <string>

#include "plugin/options.h"

namespace sdp4bit::test {

/// A text that `option` takes and that changes what it prints; "" where none of those known here does: add
/// one.
inline std::string other_value(const Option& option, const Config& in_force) {
  for (const char* text : {"0", "1", "2", "8", "64", "1024", "8K", "fp16", "bf16", "fp32", "int8-rn", "int8",
                           "full", "exact", "abort", "all", "spans-nodes", "all_gather"}) {
    Config tried = in_force;
    if (option.parse(text, tried) && option.print(tried) != option.print(in_force)) return text;
  }
  return {};
}

}  // namespace sdp4bit::test
