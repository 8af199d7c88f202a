// The thread's open group and its end.
#include "sandbox/nccl/group.h"

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/strict.h"

namespace sandbox::nccl {
namespace {

struct Work {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;
};

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Work> work;  // by communicator, in the order they first appeared
  std::vector<Job> jobs;
};

thread_local Group group;

void drop_handle(const Job& job) {
  if (job.handle == nullptr || *job.handle == nullptr) return;
  job.communicator->leave(Presence::gone);
  forget_communicator(*job.handle);
  *job.handle = nullptr;
}

// Runs one job; an error is kept in the communicator's state too.
std::optional<Failure> run_job(const Job& job) {
  try {
    job.run();
    job.communicator->set_state(ncclSuccess);
    return std::nullopt;
  } catch (const Failure& failure) {
    job.communicator->remember(failure.text);
    job.communicator->set_state(failure.code);
    return failure;
  } catch (const Aborted&) {
    job.communicator->set_state(ncclInternalError);
    return Failure{ncclInternalError, "the communicator was aborted"};
  }
}

// All jobs at once, as each waits for ranks that may be behind another one.
ncclResult_t run_blocking(const std::vector<Job>& jobs) {
  std::vector<std::optional<Failure>> failures(jobs.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < jobs.size(); ++i) threads.emplace_back([&, i] { failures[i] = run_job(jobs[i]); });
  failures[0] = run_job(jobs[0]);
  for (std::thread& thread : threads) thread.join();
  std::optional<Failure> first;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!failures[i]) continue;
    drop_handle(jobs[i]);
    if (!first) first = failures[i];
  }
  if (first) throw *first;
  return ncclSuccess;
}

// Whether all are non-blocking; a mixture is refused.
template <class Items>
bool all_nonblocking(const Items& items) {
  const bool blocking = items.front().communicator->configuration().blocking;
  for (const auto& item : items) {
    require(item.communicator->configuration().blocking == blocking, ncclInvalidUsage,
            "blocking and non-blocking communicators in one group");
  }
  return !blocking;
}

ncclResult_t run_jobs(std::vector<Job> jobs) {
  if (!all_nonblocking(jobs)) return run_blocking(jobs);
  for (Job& job : jobs) {
    Communicator& communicator = *job.communicator;
    communicator.helper.start([job = std::move(job)] { run_job(job); });
  }
  return ncclInProgress;
}

// Where a failure concerns one communicator, all its ranks hear of it.
void launch_all(std::vector<Work>& works) {
  const auto guarded = [](Communicator& communicator, auto&& step) {
    try {
      step();
    } catch (const Failure& failure) {
      // Who aborts leaves: the others hear of that, and it is not theirs.
      if (!communicator.endpoint().aborted()) communicator.endpoint().fail(failure);
      communicator.remember(failure.text);
      throw;
    }
  };
  for (const Work& work : works) announce_first_use(*work.communicator, work.operations);
  for (const Work& work : works) {
    guarded(*work.communicator, [&] { await_first_use(*work.communicator, work.operations); });
  }
  for (Work& work : works) {
    guarded(*work.communicator, [&] { work.communicator->launch(std::move(work.operations)); });
  }
}

ncclResult_t run_work(std::vector<Work> works) {
  if (!all_nonblocking(works)) {
    launch_all(works);
    return ncclSuccess;
  }
  for (const Work& work : works) work.communicator->set_state(ncclInProgress);
  const std::shared_ptr<Communicator> first = works.front().communicator;
  std::vector<std::shared_ptr<Communicator>> all;
  for (const Work& work : works) all.push_back(work.communicator);
  first->helper.start([works = std::move(works), all]() mutable {
    ncclResult_t result = ncclSuccess;
    try {
      launch_all(works);
    } catch (const Failure& failure) {
      result = failure.code;
    } catch (const Aborted&) {
      result = ncclInternalError;
    }
    for (const std::shared_ptr<Communicator>& communicator : all) communicator->set_state(result);
  });
  // The others' owners wait for the same thread.
  for (const std::shared_ptr<Communicator>& communicator : all) {
    if (communicator != first) communicator->helper.start([first] { first->helper.wait(); });
  }
  return ncclInProgress;
}

std::vector<Operation>& operations_of(const std::shared_ptr<Communicator>& communicator) {
  for (Work& work : group.work) {
    if (work.communicator == communicator) return work.operations;
  }
  group.work.push_back(Work{communicator, {}});
  return group.work.back().operations;
}

Group close() {
  Group closed = std::exchange(group, Group{});
  if (closed.error != ncclSuccess) {
    for (const Job& job : closed.jobs) drop_handle(job);
  }
  return closed;
}

}  // namespace

void group_start() {
  ++group.depth;
}

ncclResult_t group_end() {
  require(group.depth > 0, ncclInvalidUsage, "GroupEnd without GroupStart");
  if (--group.depth > 0) return ncclSuccess;
  Group closed = close();
  if (closed.error != ncclSuccess) return closed.error;
  if (!closed.jobs.empty() && !closed.work.empty()) {
    for (const Job& job : closed.jobs) drop_handle(job);
    throw Failure{ncclInvalidUsage, "communicator creation and communication in one group"};
  }
  if (!closed.jobs.empty()) return run_jobs(std::move(closed.jobs));
  if (!closed.work.empty()) return run_work(std::move(closed.work));
  return ncclSuccess;
}

void group_discard() {
  require(group.depth > 0, ncclInvalidUsage, "GroupSimulateEnd without GroupStart");
  if (--group.depth > 0) return;
  for (const Job& job : close().jobs) drop_handle(job);
}

void note_group_error(ncclResult_t code) {
  if (group.depth > 0 && group.error == ncclSuccess) group.error = code;
}

ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, Operation operation) {
  const bool alone = communicator->ranks() == 1 && !is_point_to_point(operation.signature.function);
  if (alone) {
    // A communicator of one rank has nobody to wait for: it runs at the call, even inside a group.
    communicator->launch({std::move(operation)});
    return ncclSuccess;
  }
  if (group.depth == 0) {
    std::vector<Work> works;
    works.push_back(Work{communicator, {std::move(operation)}});
    return run_work(std::move(works));
  }
  operations_of(communicator).push_back(std::move(operation));
  return communicator->configuration().blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t submit(Job job) {
  if (group.depth == 0) {
    std::vector<Job> jobs;
    jobs.push_back(std::move(job));
    return run_jobs(std::move(jobs));
  }
  const bool blocking = job.communicator->configuration().blocking;
  group.jobs.push_back(std::move(job));
  return blocking ? ncclSuccess : ncclInProgress;
}

}  // namespace sandbox::nccl
