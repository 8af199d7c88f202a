// Walks through a program as every rank does, and compares what ran; see oracle.h.
//
// clang-format off
//   what becomes of a call   comm_model.cpp, by settings.cpp; of weights weight_model.cpp and own_shards.cpp
//   what it may give         gradient_bound.cpp, results.cpp
//   how often what ran       expected_calls.cpp
// clang-format on
#include "oracle.h"

#include <map>
#include <set>
#include <vector>

#include "comm_model.h"
#include "expected_calls.h"
#include "results.h"
#include "values.h"

namespace sdp4bit::model {
namespace {

class Judge {
 public:
  Judge(const Program& program, const Plan& plan, const Trace& trace, Tally& tally)
      : program_(program), plan_(plan), trace_(trace), tally_(tally), expected_(program) {}

  void walk() {
    for (step_ = 0; step_ < program_.steps.size(); ++step_) walk_step(program_.steps[step_]);
    const std::string wrong = expected_.compare(trace_);
    if (!wrong.empty()) throw Wrong(wrong);
  }

 private:
  struct Decided {
    const Execution* execution;
    CommModel* comm;
    Fate fate;
  };
  using GraphFates = std::map<std::pair<const Call*, std::size_t>, Fate>;

  void walk_step(const Step& step) {
    switch (step.action) {
      case Action::create:
        for (std::size_t i = 0; i < plan_.communicators.size(); ++i) {
          if (plan_.communicators[i].number == step.target)
            comms_.try_emplace(i, program_, plan_.communicators[i]);
        }
        break;
      case Action::abort:
      case Action::revoke:
        permit(step);
        [[fallthrough]];
      case Action::destroy:
        std::erase_if(comms_,
                      [&](const auto& comm) { return comm.second.communicator.number == step.target; });
        break;
      case Action::hint:
        each_comm(step.target, [&](CommModel& comm) { comm.hint(step.ranks, step.carries); });
        break;
      case Action::reset:
        each_comm(step.target, [&](CommModel& comm) { comm.ask_for_reset(step.ranks); });
        break;
      case Action::group:
        walk_group(step);
        break;
      case Action::simulate:
        count_simulated(step);
        break;
      case Action::capture:
        walk_capture(step);
        break;
      case Action::replay:
        walk_replay(step);
        break;
      case Action::reload:
        reload(step);
        break;
      default:
        break;
    }
  }

  template <typename Do>
  void each_comm(int number, Do act) {
    for (auto& [index, comm] : comms_) {
      if (comm.communicator.number == number) act(comm);
    }
  }

  // ---- steps ----

  void walk_group(const Step& step) {
    std::vector<Decided> calls;
    for (const std::size_t index : plan_.of_step[step_]) {
      const Execution& execution = plan_.executions[index];
      CommModel& comm = comms_.at(execution.communicator);
      calls.push_back({&execution, &comm, comm.decide(*execution.call, step_, false)});
    }
    starved_ = step.starved;
    for (const Decided& call : calls) {
      const Call& what = *call.execution->call;
      call.comm->launch(what, step_, call.fate, starved_);
      if (is_compressed(call.fate)) expected_.expect_compressed(call.comm->communicator, what.function);
      look_at(call);
    }
    starved_ = 0;
  }

  static bool is_compressed(Fate fate) {
    return fate == Fate::compressed || fate == Fate::difference || fate == Fate::direct;
  }

  void walk_capture(const Step& step) {
    GraphFates fates;
    for (const Call& call : step.calls) {
      for (auto& [index, comm] : comms_) {
        if (comm.communicator.number != comm_of(program_, call)) continue;
        const Fate fate = comm.decide(call, step_, true);
        fates[{&call, index}] = fate;
        if (fate == Fate::compressed) expected_.expect_compressed(comm.communicator, call.function);
      }
    }
    graphs_[step.target] = std::move(fates);
  }

  void walk_replay(const Step& step) {
    for (const std::size_t index : plan_.of_step[step_]) {
      const Execution& execution = plan_.executions[index];
      ++tally_.replayed;
      const Fate fate = graphs_.at(step.target).at({execution.call, execution.communicator});
      // A graph knows no classes: its AllGathers are NCCL's.
      look_at({&execution, &comms_.at(execution.communicator), fate}, true);
    }
  }

  void reload(const Step& step) {
    const int number = program_.weights[static_cast<std::size_t>(step.target)].comm;
    for (const auto& [index, comm] : comms_) {
      if (comm.communicator.number != number) continue;
      for (int place = 0; place < comm.communicator.ranks(); ++place) {
        const int member = comm.communicator.members[static_cast<std::size_t>(place)];
        if (!has(step.ranks, member)) continue;
        master(step.target, index, place).reload(step);
        left_.erase({step.target, member});
      }
    }
  }

  Master& master(int weight, std::size_t communicator, int place) {
    const std::size_t count = program_.weights[static_cast<std::size_t>(weight)].count;
    return masters_.try_emplace({weight, communicator, place}, program_.seed, weight, place, count)
        .first->second;
  }

  /// Nothing runs, but that NCCL executes a call on one rank at once, in whatever group it is.
  void count_simulated(const Step& step) {
    for (const Call& call : step.calls) {
      each_comm(comm_of(program_, call), [&](const CommModel& comm) {
        const int member = comm.communicator.members[0];
        if (comm.communicator.ranks() == 1 && has(step.ranks, member))
          expected_.expect_native_on(member, call);
      });
    }
  }

  /// Calls that were cut off: nobody knows how far they came.
  void permit(const Step& step) {
    for (const Call& call : step.calls) {
      each_comm(step.target, [&](const CommModel& comm) {
        for (const int member : comm.communicator.members) {
          if (has(step.ranks, member)) expected_.permit_on(member, call);
        }
      });
    }
  }

  // ---- results ----

  void look_at(const Decided& decided, bool replayed = false) {
    const Call& call = *decided.execution->call;
    const Result result(program_, plan_, trace_, *decided.execution, *decided.comm, decided.fate);
    result.look_at_untouched();
    tally_.with_nan += call.bad_rank >= 0;
    tally_.others += !is_ours(call.function);
    if (call.function == Function::all_gather) {
      look_at_gather(decided, result, replayed);
    } else {
      tally_.compressed_gradients += decided.fate == Fate::compressed;
      if (decided.fate != Fate::compressed) count_native(decided);
      result.look_at_numbers();
    }
  }

  void count_native(const Decided& decided) {
    ++tally_.native;
    expected_.expect_native(decided.comm->communicator, *decided.execution->call);
  }

  void look_at_gather(const Decided& decided, const Result& result, bool replayed) {
    const Call& call = *decided.execution->call;
    Gather gather = result.gather();
    look_at_given(decided, result, gather);
    WeightClass* const weights = replayed ? nullptr : decided.comm->weights_of(call);
    const Settings& settings = decided.comm->settings;
    if (decided.fate == Fate::difference) {
      const std::vector<Values> before = weights->start_difference(gather, decided.comm->resets_asked());
      if (weights->voted_down()) {
        ++tally_.voted_down;
        std::vector<Values> given;
        for (const OwnSlice& slice : gather.ranks) given.push_back(slice.given);
        weights->end_difference(given);
      } else {
        ++tally_.differences;
        result.look_at_coded(gather, before, settings.weight, settings.weight_group);
        look_at_own_slices(result, *weights, gather, before);
        weights->end_difference(result.held());
        return;
      }
    } else if (decided.fate == Fate::direct) {
      ++tally_.direct;
      if (weights) weights->pass(gather);
      const std::vector<Values> before(gather.size(), Values(gather.shards[0].size(), 0.0));
      result.look_at_coded(gather, before, settings.direct_codec(), settings.direct_group());
      for (int place = 0; place < result.ranks(); ++place) {
        const bool right = settings.own_shard == "replica"
                               ? result.own_slice_is_held(place)
                               : result.own_slice_is(place, gather.shards[static_cast<std::size_t>(place)]);
        if (!right)
          result.wrong(place, result.difference(place, gather.shards[static_cast<std::size_t>(place)]));
      }
      return;
    } else if (decided.fate == Fate::recorded) {
      ++tally_.recorded;
      std::vector<bool> starved;
      for (const int member : decided.comm->communicator.members) starved.push_back(has(starved_, member));
      weights->record(gather, decided.comm->resets_asked(), starved);
      for (std::size_t place = 0; place < starved.size(); ++place) {
        if (!starved[place]) starved_ &= ~(RankSet{1} << result.member(static_cast<int>(place)));
      }
    } else if (weights) {
      weights->pass(gather);
    }
    count_native(decided);
    result.look_at_exact(gather);
  }

  /// What the program itself did: what it gave is what its masters say. Where the own slice is the only copy,
  /// nothing may have changed it since.
  void look_at_given(const Decided& decided, const Result& result, const Gather& gather) {
    const Call& call = *decided.execution->call;
    const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
    for (int place = 0; place < result.ranks(); ++place) {
      const OwnSlice& slice = gather.ranks[static_cast<std::size_t>(place)];
      Master& own = master(call.buffer, decided.execution->communicator, place);
      own.walk(call);
      Values& left = left_[{call.buffer, result.member(place)}];
      const bool kept = has(weight.kept, result.member(place));
      const Values expected =
          kept && !left.empty() ? own.moved_on(weight, call, left) : own.shard(weight, call);
      left = slice.left;
      if (!same(slice.given, expected)) result.wrong(place, "the program's own copy changed between calls");
    }
  }

  void look_at_own_slices(const Result& result, WeightClass& weights, const Gather& gather,
                          const std::vector<Values>& before) {
    OwnShards& own = weights.own();
    bool held = true, exact = true;
    for (int place = 0; place < result.ranks(); ++place) {
      held = held && result.own_slice_is_held(place);
      exact = exact && result.own_slice_is(place, gather.shards[static_cast<std::size_t>(place)]);
    }
    if (own.rule() == OwnShards::Rule::asks && own.may_be_replica() && held && !exact) own.saw_replica();
    for (int place = 0; place < result.ranks(); ++place) {
      const auto rank = static_cast<std::size_t>(place);
      std::string problem;
      if (own.rule() == OwnShards::Rule::replica) {
        if (!result.own_slice_is_held(place)) problem = "its own slice is not what the others hold";
      } else if (own.rule() == OwnShards::Rule::asks) {
        problem = weights.look_for_step(rank, gather, before[rank]);
      } else if (!result.own_slice_is(place, gather.shards[rank])) {
        problem = result.difference(place, gather.shards[rank]);
      }
      if (!problem.empty()) result.wrong(place, problem);
    }
    tally_.replicas += own.rule() == OwnShards::Rule::replica && own.asked();
  }

  const Program& program_;
  const Plan& plan_;
  const Trace& trace_;
  Tally& tally_;
  ExpectedCalls expected_;
  std::size_t step_ = 0;
  RankSet starved_ = 0;  // in the present group
  std::map<std::size_t, CommModel> comms_;
  std::map<int, GraphFates> graphs_;
  std::map<std::tuple<int, std::size_t, int>, Master> masters_;
  std::map<std::pair<int, int>, Values>
      left_;  // by weight and rank of the job: its own slice behind the last call
};

}  // namespace

std::string judge(const Program& program, const Plan& plan, const Trace& trace, Tally& tally) {
  try {
    Judge(program, plan, trace, tally).walk();
    return {};
  } catch (const Wrong& what) {
    return what.what();
  }
}

}  // namespace sdp4bit::model
