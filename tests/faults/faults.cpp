// Every call that the library makes of CUDA, NCCL and malloc: it fails once, or a rank dies, stops or exits
// there. The job then finishes right or ends with an error on the ranks that are left, in bounded time, and
// never with a wrong result.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>

#include "catch.h"
#include "injector.h"
#include "job.h"
#include "outcomes.h"

namespace sdp4bit::faults {
namespace {

using test::check;
using test::RankContext;

const Injector& injector() {
  const auto get = reinterpret_cast<const Injector* (*)()>(::dlsym(RTLD_DEFAULT, "sdp4bit_faults_injector"));
  if (!get) throw std::runtime_error("run this by ctest, which preloads the injector");
  return *get();
}

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

/// The device memory that is left, once the library has freed what was retired: it does so where a
/// communicator is made.
std::size_t free_memory_behind_a_new_communicator() {
  ncclComm_t alone = nullptr;
  int device = 0;
  check(cudaGetDevice(&device));
  check(ncclCommInitAll(&alone, 1, &device));
  check(ncclCommDestroy(alone));
  return free_memory();
}

/// What a rank hands to its parent; one that is killed hands nothing.
struct Report {
  std::uint64_t fired = 0, mallocs = 0, site_count = 0;
  CallSite sites[600] = {};
  char error[400] = {};
};

/// Runs the job with `disturb` called on one rank beforehand. After an error a rank aborts its communicator,
/// as programs do, and its device must have its memory back.
std::vector<RankEnd> run(const Setting& setting, std::size_t who, const std::function<void()>& disturb,
                         std::vector<Report>* reports = nullptr) {
  test::Cluster cluster{.node_of = test::even_nodes(kNodes, kLocalRanks),
                        .environment = {{"SDP4BIT_COMMS", "all"},
                                        {"SDP4BIT_MIN_BYTES", "0"},
                                        {"SDP4BIT_OWN_SHARD", "replica"},
                                        {"SDP4BIT_LOG", "error"},
                                        {"SDP4BIT_WATCHDOG", "2"},
                                        {"SANDBOX_NCCL_TIMEOUT", "6"}},
                        .connect = false};
  cluster.environment.insert(cluster.environment.end(), setting.environment.begin(),
                             setting.environment.end());
  const auto body = [&](RankContext& rank) {
    const std::size_t before = free_memory();
    if (static_cast<std::size_t>(rank.rank) == who) disturb();
    std::string error;
    try {
      run_job(rank, setting);
    } catch (const WrongResult& wrong) {
      error = "WRONG: " + wrong.text;
    } catch (const std::exception& failure) {
      error = failure.what();
      if (rank.comm) (void)ncclCommAbort(rank.comm);
    }
    rank.comm = nullptr;
    Report report;
    report.fired = injector().fired();
    report.mallocs = injector().mallocs();
    report.site_count = injector().sites(report.sites, std::size(report.sites));
    injector().arm(Action::none, 0, 0);
    injector().fail_malloc(0);
    // Memory of a device that failed is gone with it.
    if (cudaStreamSynchronize(rank.stream) == cudaSuccess) {
      const std::size_t after = free_memory_behind_a_new_communicator();
      if (after < before) error += " LEAK: " + std::to_string(before - after) + " bytes";
    }
    error.copy(report.error, sizeof report.error - 1);
    rank.result.resize(sizeof report);
    std::memcpy(rank.result.data(), &report, sizeof report);
    if (cudaPeekAtLastError() != cudaSuccess) std::exit(0);  // nothing more can be asked of this device
  };
  const auto outcomes = test::run_cluster(cluster, body);
  std::vector<RankEnd> ends;
  for (const test::Outcome& outcome : outcomes) {
    Report report;
    if (outcome.result.size() == sizeof report) std::memcpy(&report, outcome.result.data(), sizeof report);
    if (reports) reports->push_back(report);
    ends.push_back({outcome.failure, report.error, outcome.log, report.fired != 0});
  }
  return ends;
}

/// Sites that the job reaches on some rank, with the setting in which each was met first and how often it
/// calls there.
struct MetSite {
  CallSite site;
  const Setting* setting;
  std::size_t rank;
};

/// The undisturbed job under every setting, which must be right.
std::vector<MetSite> meet_sites(std::vector<std::uint64_t>* mallocs = nullptr) {
  std::vector<MetSite> met;
  std::set<std::uint64_t> offsets;
  for (const Setting& setting : settings()) {
    INFO(setting.name);
    std::vector<Report> reports;
    const auto ends = run(
        setting, kNodes * kLocalRanks, [] {}, &reports);
    for (const RankEnd& end : ends) {
      INFO(end.log);
      REQUIRE(end.died + end.error == "");
    }
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      const Report& report = reports[rank];
      REQUIRE(report.site_count <= std::size(report.sites));
      for (std::size_t i = 0; i < report.site_count; ++i) {
        if (offsets.insert(report.sites[i].offset).second) met.push_back({report.sites[i], &setting, rank});
      }
    }
    if (mallocs) mallocs->push_back(reports[1].mallocs);
  }
  return met;
}

struct Kind {
  Action action;
  const char* name;
};
constexpr Kind kKinds[] = {
    {Action::fail, "fail"}, {Action::kill, "kill"}, {Action::stop, "stop"}, {Action::leave, "exit"}};

/// At the first call of a site, the last, or one between.
std::uint32_t moment(std::uint32_t calls, unsigned choice) {
  return choice % 3 == 0 ? 1 : choice % 3 == 1 ? calls : 1 + calls / 2;
}

void disturb(const MetSite& met, const Kind& kind, std::uint32_t number, Outcomes& outcomes) {
  CAPTURE(kind.name, injector().function_name(met.site.function), met.site.offset, number, met.setting->name,
          met.rank);
  auto ends = run(*met.setting, met.rank, [&] { injector().arm(kind.action, met.site.offset, number); });
  ends[met.rank].may_keep = std::string_view(injector().function_name(met.site.function)) == "cudaFree" &&
                            kind.action == Action::fail;
  CHECK(outcomes.add(kind.name, met.rank, ends) == "");
}

void fail_malloc(const Setting& setting, std::uint32_t number, Outcomes& outcomes) {
  CAPTURE(setting.name, number);
  const auto ends = run(setting, 1, [&] { injector().fail_malloc(number); });
  CHECK(outcomes.add("malloc", 1, ends) == "");
}

TEST_CASE("Faults.SampledCallsOfTheLibrary") {
  const std::vector<MetSite> met = meet_sites();
  REQUIRE(met.size() > 60);
  Outcomes outcomes;
  unsigned chosen = 0;
  for (std::size_t i = 3; i < met.size(); i += met.size() / 8) {
    const std::uint32_t number = moment(met[i].site.calls, chosen);
    disturb(met[i], kKinds[chosen++ % std::size(kKinds)], number, outcomes);
  }
  for (const std::uint32_t number : {5u, 60u, 200u}) fail_malloc(settings()[0], number, outcomes);
  CHECK(outcomes.injected() >= 9);
  outcomes.print("sampled");
}

TEST_CASE("Faults.EveryCallOfTheLibrary", "[.slow]") {
  std::vector<std::uint64_t> mallocs;
  const std::vector<MetSite> met = meet_sites(&mallocs);
  Outcomes outcomes;
  unsigned choice = 0;
  for (std::size_t i = 0; i < met.size(); ++i) {
    std::fprintf(stderr, "faults: call site %zu of %zu (%s), %d injected\n", i + 1, met.size(),
                 injector().function_name(met[i].site.function), outcomes.injected());
    std::set<std::uint32_t> numbers{1, met[i].site.calls};
    for (const std::uint32_t number : numbers) disturb(met[i], kKinds[0], number, outcomes);
    // The other kinds take turns over the sites; all three everywhere would say the same three times.
    disturb(met[i], kKinds[1 + choice % 3], moment(met[i].site.calls, choice / 3), outcomes);
    ++choice;
  }
  for (std::size_t s = 0; s < settings().size(); ++s) {
    const auto most = static_cast<std::uint32_t>(mallocs[s]);
    for (std::uint32_t number = 1; number <= most; number += number < 400 ? 7 : most / 20 + 1)
      fail_malloc(settings()[s], number, outcomes);
  }
  CHECK(outcomes.injected() > 300);
  outcomes.print("everywhere");
}

}  // namespace
}  // namespace sdp4bit::faults
