// Runs a disturbed job on an emulated cluster; see disturbed_run.h.
#include "disturbed_run.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <stdexcept>

#include "catch.h"

namespace sdp4bit::faults {

using test::check;
using test::RankContext;

const Injector& injector() {
  const auto get = reinterpret_cast<const Injector* (*)()>(::dlsym(RTLD_DEFAULT, "sdp4bit_faults_injector"));
  if (!get) throw std::runtime_error("run this by ctest, which preloads the injector");
  return *get();
}

namespace {

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

}  // namespace

std::vector<RankEnd> run(const Setting& setting, std::size_t who, const std::function<void()>& disturb,
                         std::vector<Report>* reports, const std::function<void()>& afterwards) {
  test::Cluster cluster{.node_of = test::even_nodes(kNodes, kLocalRanks),
                        .environment = {{"SDP4BIT_COMMS", "all"},
                                        {"SDP4BIT_MIN_BYTES", "0"},
                                        {"SDP4BIT_OWN_SHARD", "replica"},
                                        {"SDP4BIT_LOG", "error"},
                                        {"SDP4BIT_WATCHDOG", "2"},
                                        {"SANDBOX_NCCL_TIMEOUT", "6"}},
                        .environment_of_rank =
                            [](int rank) {
                              return test::Environment{{"RANK", std::to_string(rank)}};
                            },
                        .connect = false};
  cluster.environment.insert(cluster.environment.end(), setting.environment.begin(),
                             setting.environment.end());
  const auto body = [&](RankContext& rank) {
    const std::size_t before = free_memory();
    if (static_cast<std::size_t>(rank.rank) == who) disturb();
    std::string error;
    try {
      run_job(rank, setting);
      if (afterwards) afterwards();
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
    injector().arm(Action::none, 0, 0, 0);
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

std::vector<MetSite> meet_sites(const std::vector<Setting>& settings, bool of_gpu,
                                std::vector<std::uint64_t>* mallocs,
                                const std::function<void()>& afterwards) {
  std::vector<MetSite> met;
  std::set<std::uint64_t> offsets;
  for (const Setting& setting : settings) {
    INFO(setting.name);
    std::vector<Report> reports;
    const auto ends = run(
        setting, kNodes * kLocalRanks, [] {}, &reports, afterwards);
    for (const RankEnd& end : ends) {
      INFO(end.log);
      REQUIRE(end.died + end.error == "");
    }
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
      const Report& report = reports[rank];
      REQUIRE(report.site_count <= std::size(report.sites));
      for (std::size_t i = 0; i < report.site_count; ++i) {
        if (injector().is_of_gpu(report.sites[i].function) == of_gpu &&
            offsets.insert(report.sites[i].offset).second)
          met.push_back({report.sites[i], &setting, rank});
      }
    }
    if (mallocs) mallocs->push_back(reports[1].mallocs);
  }
  return met;
}

}  // namespace sdp4bit::faults
