// The job with one rank disturbed: what each rank reports, and how it ended.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "injector.h"
#include "job.h"
#include "outcomes.h"

namespace sdp4bit::faults {

/// Of this process. Throws where none is preloaded.
[[nodiscard]] const Injector& injector();

/// What a rank hands to its parent; one that is killed hands nothing.
struct Report {
  std::uint64_t fired = 0, mallocs = 0, site_count = 0;
  CallSite sites[600] = {};
  char error[400] = {};
};

/// Runs the job with `disturb` called on rank `who` beforehand. After an error a rank aborts its
/// communicator, as programs do, and its device must have its memory back. `afterwards` runs behind a job
/// that was right.
[[nodiscard]] std::vector<RankEnd> run(const Setting& setting, std::size_t who,
                                       const std::function<void()>& disturb,
                                       std::vector<Report>* reports = nullptr,
                                       const std::function<void()>& afterwards = {});

/// Sites that the job reaches on some rank, with the setting in which each was met first and how often it
/// calls there.
struct MetSite {
  CallSite site;
  const Setting* setting;
  std::size_t rank;
};

/// The undisturbed jobs, which must be right. Sites of CUDA and NCCL, or of the system.
[[nodiscard]] std::vector<MetSite> meet_sites(const std::vector<Setting>& settings, bool of_gpu,
                                              std::vector<std::uint64_t>* mallocs = nullptr,
                                              const std::function<void()>& afterwards = {});

}  // namespace sdp4bit::faults
