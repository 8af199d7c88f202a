// What a row costs, as the machine that the program is linked for can tell: an emulated one counts, a GPU is
// timed.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "options.h"

namespace sdp4bit::bench {

/// A number of a row, with the name of its column.
using Figure = std::pair<std::string, double>;

class Machine {
 public:
  explicit Machine(const Options& options);
  /// Elements of a shard where none were asked for.
  static std::size_t default_count();
  /// "emulated", or the GPU's name.
  const std::string& name() const { return name_; }
  /// What holds for all rows: versions, the bandwidth of a copy.
  const std::vector<std::pair<std::string, std::string>>& facts() const { return facts_; }
  std::vector<Figure> measure(const Case& row, PreparedCase& prepared);

 private:
  const Options& options_;
  std::string name_;
  std::vector<std::pair<std::string, std::string>> facts_;
  double copy_bytes_per_second_ = 0;
  std::size_t recorded_ = 0;
};

}  // namespace sdp4bit::bench
