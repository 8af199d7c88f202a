// collectives: measures NCCL collectives with the bytes that they send and the errors that they make.
//
// It is an ordinary NCCL program with one process per rank. It knows nothing of what may be preloaded into
// it, and runs with NVIDIA's NCCL as well as with the sandbox's, which also counts bytes.
#include <cstdio>
#include <exception>

#include "launch.h"
#include "measure.h"
#include "report.h"

namespace collectives {
namespace {

void run_rank(const Options& options) {
  const RankIdentity identity = identify_rank();
  const Session session(options.id_file, identity);
  const bool prints = session.rank() == 0;
  if (prints) print_header(options, session.ranks(), session.nodes());
  for (const Collective collective : options.collectives) {
    const bool reduces = collective == Collective::kReduceScatter;
    const auto reductions = reduces ? options.reductions : std::vector{Reduction::kNone};
    for (const ElementType& type : options.types) {
      for (const Reduction reduction : reductions) {
        for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= options.factor) {
          const Case which{collective,  type, reduction, bytes, options.in_place.value_or(!reduces),
                           options.seed};
          const Measurement measurement = measure(which, options, session);
          if (prints) print_row(measurement, options.format);
          if (bytes == 0) break;
        }
      }
    }
  }
}

int run(int argc, char** argv) {
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (options.id_file.empty()) return start_ranks(options, argc, argv);
    run_rank(options);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "collectives: %s\n\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "collectives: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace collectives

int main(int argc, char** argv) {
  return collectives::run(argc, argv);
}
