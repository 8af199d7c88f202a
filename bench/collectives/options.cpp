// The command line: what to measure, on how many ranks, how to print it.
#include "options.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>

namespace collectives {
namespace {

// A whole number with an optional suffix K, M or G.
std::size_t parse_size(const std::string& text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::size_t shift = 0;
  if (rest + 1 == end) {
    switch (*rest) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  if (error != std::errc() || (rest != end && shift == 0)) {
    throw std::invalid_argument("'" + text + "' is not a number (K, M and G are understood)");
  }
  return value << shift;
}

int parse_count(const std::string& text, int least) {
  const std::size_t value = parse_size(text);
  if (value < static_cast<std::size_t>(least) || value > 1'000'000) {
    throw std::invalid_argument("'" + text + "' is out of range");
  }
  return static_cast<int>(value);
}

// Calls `take` for each part of a list separated by commas.
void for_each_part(const std::string& text, const std::function<void(const std::string&)>& take) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    take(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
}

std::vector<ElementType> parse_types(const std::string& text) {
  const auto all = element_types();
  if (text == "all") return {all.begin(), all.end()};
  std::vector<ElementType> types;
  for_each_part(text, [&](const std::string& part) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const ElementType& type) {
      return part == type.name || part == type.alias;
    });
    if (found == all.end())
      throw std::invalid_argument("-d knows float, half, bfloat16 and all, not '" + part + "'");
    types.push_back(*found);
  });
  return types;
}

std::vector<Reduction> parse_reductions(const std::string& text) {
  if (text == "all") return {Reduction::kSum, Reduction::kAverage, Reduction::kPreMulSum};
  static const std::map<std::string, Reduction> known{
      {"sum", Reduction::kSum}, {"avg", Reduction::kAverage}, {"mulsum", Reduction::kPreMulSum}};
  std::vector<Reduction> reductions;
  for_each_part(text, [&](const std::string& part) {
    if (!known.contains(part))
      throw std::invalid_argument("-o knows sum, avg, mulsum and all, not '" + part + "'");
    reductions.push_back(known.at(part));
  });
  return reductions;
}

Format parse_format(const std::string& text) {
  static const std::map<std::string, Format> known{
      {"table", Format::kTable}, {"csv", Format::kCsv}, {"json", Format::kJson}};
  if (!known.contains(text))
    throw std::invalid_argument("--format knows table, csv and json, not '" + text + "'");
  return known.at(text);
}

bool parse_switch(const std::string& text) {
  if (text != "0" && text != "1") throw std::invalid_argument("'" + text + "' should be 0 or 1");
  return text == "1";
}

Collective parse_collective(const std::string& text) {
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllGather}) {
    if (text == name_of(collective)) return collective;
  }
  throw std::invalid_argument("unknown argument '" + text + "'");
}

}  // namespace

const char* name_of(Collective collective) {
  return collective == Collective::kReduceScatter ? "reduce_scatter" : "all_gather";
}

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kAverage:
      return "avg";
    case Reduction::kPreMulSum:
      return "mulsum";
    case Reduction::kNone:
      break;
  }
  return "none";
}

const char* const kUsage = R"(collectives [reduce_scatter] [all_gather] [OPTION VALUE]...
Measures NCCL collectives: time, bandwidth, bytes on the wire and error against an exact result.

  -b BYTES   smallest size (default 1M)        -g COUNT     ranks per node (default 1)
  -e BYTES   largest size (default: as -b)     --nodes COUNT  nodes (default 1); all on this machine, told
  -f FACTOR  step between sizes (default 2)                 apart by NCCL_HOSTID
  -d TYPE    float, half, bfloat16, all        -n COUNT     measured calls (default 20)
  -o OP      sum, avg, mulsum, all             -w COUNT     calls before those (default 5)
  -c 0|1     compare with the exact result     --in-place 0|1  default: reduce_scatter 0, all_gather 1
  --seed N   of the data (default 1)           --format table|csv|json
  --id-file PATH  started by mpirun, torchrun or srun: ranks come from their environment, and rank 0 hands out the
                  communicator's id through this file, which all ranks see and which must not exist yet

Types and operations may be lists separated by commas. The size is that of the larger buffer of a rank, as in nccl-tests.
)";

Options parse_options(int argc, char** argv) {
  Options options;
  std::vector<Collective> named;
  bool max_given = false;
  const std::map<std::string, std::function<void(const std::string&)>> known{
      {"-b", [&](const std::string& text) { options.min_bytes = parse_size(text); }},
      {"-e",
       [&](const std::string& text) {
         options.max_bytes = parse_size(text);
         max_given = true;
       }},
      {"-f",
       [&](const std::string& text) { options.factor = static_cast<std::size_t>(parse_count(text, 2)); }},
      {"-d", [&](const std::string& text) { options.types = parse_types(text); }},
      {"-o", [&](const std::string& text) { options.reductions = parse_reductions(text); }},
      {"-n", [&](const std::string& text) { options.iterations = parse_count(text, 1); }},
      {"-w", [&](const std::string& text) { options.warmup = parse_count(text, 0); }},
      {"-g", [&](const std::string& text) { options.ranks_per_node = parse_count(text, 1); }},
      {"-c", [&](const std::string& text) { options.check = parse_switch(text); }},
      {"--nodes", [&](const std::string& text) { options.nodes = parse_count(text, 1); }},
      {"--seed", [&](const std::string& text) { options.seed = parse_size(text); }},
      {"--in-place", [&](const std::string& text) { options.in_place = parse_switch(text); }},
      {"--format", [&](const std::string& text) { options.format = parse_format(text); }},
      {"--id-file", [&](const std::string& text) { options.id_file = text; }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "-h" || argument == "--help") {
      options.help = true;
    } else if (const auto option = known.find(argument); option != known.end()) {
      if (++i == argc) throw std::invalid_argument(argument + " needs a value");
      option->second(argv[i]);
    } else {
      named.push_back(parse_collective(argument));
    }
  }
  if (!named.empty()) options.collectives = named;
  if (!max_given) options.max_bytes = options.min_bytes;
  if (options.max_bytes < options.min_bytes) throw std::invalid_argument("-e is smaller than -b");
  return options;
}

}  // namespace collectives
