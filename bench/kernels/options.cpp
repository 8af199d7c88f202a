// Reads the command line.
#include "options.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

#include "kernels/tuning.h"

namespace sdp4bit::bench {
namespace {

std::size_t parse_number(std::string_view name, std::string_view text, std::size_t least, std::size_t unit) {
  std::size_t scale = 1;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'M')) {
    scale = text.back() == 'K' ? std::size_t{1} << 10 : std::size_t{1} << 20;
    text.remove_suffix(1);
  }
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > (std::size_t{1} << 40) / scale ||
      value * scale < least || value * scale % unit != 0) {
    throw std::invalid_argument(std::string(name) + " takes a multiple of " + std::to_string(unit) +
                                ", at least " + std::to_string(least) + ", with K or M where wanted");
  }
  return value * scale;
}

}  // namespace

const char* const kUsage =
    "usage: kernels [OPTION...] [PART OF A ROW'S NAME...]\n"
    "\n"
    "Runs the library's kernels on aligned data, one launch a row. On a GPU it prints the time, the bytes a\n"
    "second and their share of what a copy reaches; on the emulated machine what the launch executed and\n"
    "moved, and what that allows on GPUs.\n"
    "\n"
    "  --count N         elements of a shard, a multiple of 8192 (GPU: 64M; emulated: 256K)\n"
    "  --repeats N       timed launches of a row (GPU only; 20)\n"
    "  --record FOLDER   also write each launch with its memory, for sass_counts.py (emulated only)\n"
    "  --json            one JSON object instead of the table\n"
    "  --list            the rows' names\n"
    "  --help\n";

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw std::invalid_argument(std::string(name) + " needs a value");
      return std::string_view(argv[++i]);
    };
    if (name == "--count") {
      options.count = parse_number(name, value(), kTile, kTile);
    } else if (name == "--repeats") {
      options.repeats = static_cast<int>(parse_number(name, value(), 1, 1));
    } else if (name == "--record") {
      options.record = value();
    } else if (name == "--json") {
      options.json = true;
    } else if (name == "--list") {
      options.list = true;
    } else if (name == "--help" || name == "-h") {
      options.help = true;
    } else if (name.starts_with("-")) {
      throw std::invalid_argument("there is no option " + std::string(name) + "; --help shows all");
    } else {
      options.filters.emplace_back(name);
    }
  }
  return options;
}

}  // namespace sdp4bit::bench
