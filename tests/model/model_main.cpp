// Command line: runs random programs, or one that was printed, and shrinks what fails.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "generate.h"
#include "run.h"

namespace {

using namespace sdp4bit::model;
using Clock = std::chrono::steady_clock;

constexpr const char* kUsage =
    "model_test [--seed N] [--programs N] [--seconds N] [--shrink-seconds N] [--print] [--expect-failure]\n"
    "model_test --program FILE [--shrink-seconds N]\n";

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string judged(const Program& program, Tally& tally) {
  try {
    return run(program, tally);
  } catch (const std::exception& error) {
    return std::string("the program makes no sense: ") + error.what();
  }
}

void report(const Program& program, const std::string& failure, double shrink_seconds) {
  std::printf("seed %llu fails: %s\n", static_cast<unsigned long long>(program.seed), failure.c_str());
  std::printf("again: ctest's environment, model_test --seed %llu --programs 1\n",
              static_cast<unsigned long long>(program.seed));
  if (shrink_seconds <= 0) return;
  const Program small = shrink(program, failure, shrink_seconds);
  Tally tally;
  std::printf("shrunk, run with --program FILE:\n%sfails: %s\n", print(small).c_str(),
              judged(small, tally).c_str());
}

struct Arguments {
  std::uint64_t seed = 1, programs = 1;
  double seconds = 1e9, shrink_seconds = 60;
  std::string file;
  bool print_only = false, expect_failure = false;
};

bool read(int argc, char** argv, Arguments& arguments) {
  const std::map<std::string, double*> numbers{{"--seconds", &arguments.seconds},
                                               {"--shrink-seconds", &arguments.shrink_seconds}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--print") {
      arguments.print_only = true;
    } else if (name == "--expect-failure") {
      arguments.expect_failure = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (name == "--program") {
      arguments.file = argv[++i];
    } else if (name == "--seed") {
      arguments.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (name == "--programs") {
      arguments.programs = std::strtoull(argv[++i], nullptr, 10);
    } else if (numbers.contains(name)) {
      *numbers.at(name) = std::strtod(argv[++i], nullptr);
    } else {
      return false;
    }
  }
  return true;
}

int run_file(const Arguments& arguments) {
  std::stringstream text;
  text << std::ifstream(arguments.file).rdbuf();
  const Program program = parse(text.str());
  Tally tally;
  const std::string failure = judged(program, tally);
  if (failure.empty()) {
    std::printf("passes\n");
    return 0;
  }
  report(program, failure, arguments.shrink_seconds);
  return 1;
}

int run_seeds(const Arguments& arguments) {
  const auto start = Clock::now();
  Tally tally;
  std::uint64_t done = 0;
  for (; done < arguments.programs && since(start) < arguments.seconds; ++done) {
    const Program program = generate(arguments.seed + done);
    if (arguments.print_only) {
      std::printf("%s", print(program).c_str());
      continue;
    }
    if (print(parse(print(program))) != print(program)) {
      std::printf("seed %llu: its text is not understood\n", static_cast<unsigned long long>(program.seed));
      return 1;
    }
    const std::string failure = judged(program, tally);
    if (failure.empty()) continue;
    std::printf("program %llu of this run, after %.1f s\n", static_cast<unsigned long long>(done + 1),
                since(start));
    report(program, failure, arguments.expect_failure ? 0 : arguments.shrink_seconds);
    return arguments.expect_failure ? 0 : 1;
  }
  if (arguments.print_only) return 0;
  const double seconds = since(start);
  std::printf("%llu programs in %.1f s (%.1f a second)", static_cast<unsigned long long>(done), seconds,
              static_cast<double>(done) / seconds);
  for (const auto& [name, field] : kTallied)
    std::printf(", %llu %s", static_cast<unsigned long long>(tally.*field), name);
  std::printf("\n");
  if (arguments.expect_failure) {
    std::printf("nothing failed, though something should have\n");
    return 1;
  }
  const bool enough =
      (done < 20 || (tally.compressed_gradients > 0 && tally.differences > 0 && tally.replayed > 0)) &&
      (done < 100 || (tally.replicas > 0 && tally.others > 0));
  if (!enough) std::printf("hardly anything was compressed: these programs prove nothing\n");
  return enough ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Arguments arguments;
  if (!read(argc, argv, arguments)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  for (const char* name : {"WORLD_SIZE", "RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                           "SLURM_NTASKS", "NCCL_COMM_BLOCKING"})
    ::unsetenv(name);
  return arguments.file.empty() ? run_seeds(arguments) : run_file(arguments);
}
