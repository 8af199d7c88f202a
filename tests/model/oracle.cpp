// Walks through a program as every rank does, and compares what ran; see oracle.h.
#include "oracle.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "gradient_bound.h"
#include "settings.h"
#include "values.h"
#include "weight_model.h"

namespace sdp4bit::model {
namespace {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

bool listed(const std::string& list, ncclDataType_t type) {
  return ("," + list + ",").find(std::string(",") + name_of(type) + ",") != std::string::npos;
}

using ClassKey = std::pair<std::size_t, ncclDataType_t>;

/// What all ranks of a communicator know of it.
struct State {
  State(const Program& program, const Communicator& of)
      : communicator(of),
        settings(settings_of(program, program.process_of(of.members[0]))),
        nodes(nodes_of(program, of, settings)),
        agreed(agrees(program, of)) {}

  const Communicator& communicator;
  const Settings settings;
  const Nodes nodes;
  const bool agreed;
  std::uint64_t launched = 0, before_group = 0;
  std::size_t group = ~std::size_t{0};  // step of the last group that counted
  bool read = false;                    // the handshake
  bool gradients_before = false;
  std::map<ClassKey, std::unique_ptr<WeightClass>> classes;
  std::map<ClassKey, std::size_t> class_group;  // step of the last group that decided

  [[nodiscard]] bool holds_ledgers() const {
    return settings.ledger == "full" || (settings.ledger == "node" && nodes.equal && nodes.count() > 1);
  }
};

/// What becomes of a call.
enum class Fate { native, compressed, recorded, difference, direct };

class Judge {
 public:
  Judge(const Program& program, const Plan& plan, const Trace& trace, Tally& tally)
      : program_(program), plan_(plan), trace_(trace), tally_(tally) {}

  void walk() {
    for (step_ = 0; step_ < program_.steps.size(); ++step_) {
      const Step& step = program_.steps[step_];
      switch (step.action) {
        case Action::create:
          for (std::size_t i = 0; i < plan_.communicators.size(); ++i) {
            if (plan_.communicators[i].number == step.target)
              states_.emplace(i, State(program_, plan_.communicators[i]));
          }
          break;
        case Action::destroy:
        case Action::abort:
          std::erase_if(states_,
                        [&](const auto& state) { return state.second.communicator.number == step.target; });
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
    compare_counts();
  }

 private:
  struct Decided {
    const Execution* execution;
    State* state;
    Fate fate;
    bool counts = true;
  };
  using GraphFates = std::map<std::pair<const Call*, std::size_t>, Fate>;

  // ---- decisions ----

  Fate decide(State& state, const Call& call, bool captured) {
    const bool gradient = call.function == Function::reduce_scatter;
    const Weight* const weight =
        gradient ? nullptr : &program_.weights[static_cast<std::size_t>(call.buffer)];
    const std::size_t count = gradient ? call.count : weight->count;
    const ncclDataType_t type = gradient ? call.type : weight->type;
    const auto ranks = static_cast<std::size_t>(state.communicator.ranks());
    if (count == 0 || ranks == 1) return Fate::native;
    if (!captured && state.group != step_) {
      state.group = step_;
      state.before_group = state.launched;
      if (state.launched >= 3) state.read = true;
    }
    const Settings& settings = state.settings;
    if (captured && !(gradient && state.gradients_before)) return Fate::native;
    if (!state.read || !state.agreed) return Fate::native;
    if (!(gradient ? settings.reduce_scatter : settings.all_gather)) return Fate::native;
    if (!listed(gradient ? settings.gradient_types : settings.weight_types, type)) return Fate::native;
    if (gradient && call.reduction == Reduction::max) return Fate::native;
    if (count * bytes_of(type) * ranks < settings.min_bytes) return Fate::native;
    if (state.before_group < settings.start_call) return Fate::native;
    return gradient ? Fate::compressed : decide_gather(state, {count, type});
  }

  Fate decide_gather(State& state, const ClassKey& key) {
    const auto found = state.classes.find(key);
    const bool direct = state.settings.direct != 0 && key.second != ncclFloat32;
    if (found == state.classes.end()) {
      return state.holds_ledgers() ? Fate::recorded : direct ? Fate::direct : Fate::native;
    }
    if (state.class_group[key] != step_) {
      state.class_group[key] = step_;
      found->second->begin_group();
    }
    switch (found->second->kind()) {
      case GatherKind::recorded:
        return Fate::recorded;
      case GatherKind::difference:
        return Fate::difference;
      default:
        return direct ? Fate::direct : Fate::native;
    }
  }

  // ---- steps ----

  void walk_group(const Step& step) {
    std::vector<Decided> calls;
    for (const std::size_t index : plan_.of_step[step_]) {
      const Execution& execution = plan_.executions[index];
      State& state = states_.at(execution.communicator);
      calls.push_back({&execution, &state, decide(state, *execution.call, false)});
    }
    for (const Decided& call : calls) {
      const auto [count, type] = shape(*call.execution->call);
      if (count > 0 && call.state->communicator.ranks() > 1) ++call.state->launched;
      if (call.fate == Fate::compressed) call.state->gradients_before = true;
      if (call.fate == Fate::recorded && !call.state->classes.contains({count, type})) {
        call.state->classes[{count, type}] = std::make_unique<WeightClass>(
            call.state->settings, static_cast<std::size_t>(call.state->communicator.ranks()));
        call.state->class_group[{count, type}] = step_;
      }
      issue(call);
      look_at(call);
    }
    static_cast<void>(step);
  }

  void walk_capture(const Step& step) {
    GraphFates fates;
    for (const Call& call : step.calls) {
      for (auto& [index, state] : states_) {
        if (state.communicator.number != comm_of(program_, call)) continue;
        const Fate fate = decide(state, call, true);
        fates[{&call, index}] = fate;
        if (fate == Fate::compressed) count_library(state, Function::reduce_scatter);
      }
    }
    graphs_[step.target] = std::move(fates);
  }

  void walk_replay(const Step& step) {
    for (const std::size_t index : plan_.of_step[step_]) {
      const Execution& execution = plan_.executions[index];
      const Decided call{&execution, &states_.at(execution.communicator),
                         graphs_.at(step.target).at({execution.call, execution.communicator})};
      ++tally_.replayed;
      look_at(call);
    }
  }

  void reload(const Step& step) {
    const int number = program_.weights[static_cast<std::size_t>(step.target)].comm;
    for (const auto& [index, state] : states_) {
      if (state.communicator.number != number) continue;
      for (int place = 0; place < state.communicator.ranks(); ++place) {
        if (has(step.ranks, state.communicator.members[static_cast<std::size_t>(place)])) {
          master(step.target, index, place).reload(step);
        }
      }
    }
  }

  [[nodiscard]] ClassKey shape(const Call& call) const {
    if (call.function == Function::reduce_scatter) return {call.count, call.type};
    const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
    return {weight.count, weight.type};
  }

  Master& master(int weight, std::size_t communicator, int place) {
    const std::size_t count = program_.weights[static_cast<std::size_t>(weight)].count;
    return masters_.try_emplace({weight, communicator, place}, program_.seed, weight, place, count)
        .first->second;
  }

  // ---- counts ----

  void issue(const Decided& call) {
    const bool compressed =
        call.fate == Fate::compressed || call.fate == Fate::difference || call.fate == Fate::direct;
    if (compressed) count_library(*call.state, call.execution->call->function);
  }

  /// Nothing runs, but that NCCL executes a call on one rank at once, in whatever group it is.
  void count_simulated(const Step& step) {
    for (const Call& call : step.calls) {
      for (const auto& [index, state] : states_) {
        const int member = state.communicator.members[0];
        const bool runs = state.communicator.ranks() == 1 && has(step.ranks, member) &&
                          state.communicator.number == comm_of(program_, call);
        const auto [count, type] = shape(call);
        if (runs && count > 0) ++native_[{program_.process_of(member), call.function, count, type}];
      }
    }
  }

  void count_library(const State& state, Function function) {
    for (const int member : state.communicator.members)
      ++compressed_[{program_.process_of(member), function}];
  }

  void count_native(const Decided& call) {
    ++tally_.native;
    const auto [count, type] = shape(*call.execution->call);
    if (count == 0) return;  // NCCL need not do anything
    for (const int member : call.state->communicator.members) {
      ++native_[{program_.process_of(member), call.execution->call->function, count, type}];
    }
  }

  void compare_counts() {
    for (int process = 0; process < static_cast<int>(program_.processes.size()); ++process) {
      const ProcessCounts& counts = trace_.shared().counts[static_cast<std::size_t>(process)];
      const auto compare = [&](const char* what, std::uint64_t got, std::uint64_t expected) {
        if (got == expected) return;
        throw Wrong("process " + std::to_string(process) + " counted " + std::to_string(got) + " " + what +
                    ", expected " + std::to_string(expected));
      };
      compare("compressed ReduceScatters", counts.compressed_gradients,
              compressed_[{process, Function::reduce_scatter}]);
      compare("compressed AllGathers", counts.compressed_gathers,
              compressed_[{process, Function::all_gather}]);
      std::map<std::tuple<Function, std::size_t, ncclDataType_t>, std::uint64_t> got;
      for (std::size_t i = 0; i < std::min(counts.kinds, counts.calls.size()); ++i)
        add_kind(got, counts.calls[i]);
      for (const auto& [key, calls] : native_) {
        const auto& [of, function, count, type] = key;
        if (of != process) continue;
        compare(native_name(function, count, type).c_str(), got[{function, count, type}], calls);
        got.erase({function, count, type});
      }
      for (const auto& [key, calls] : got) {
        if (std::get<1>(key) == 0) continue;
        compare(native_name(std::get<0>(key), std::get<1>(key), std::get<2>(key)).c_str(), calls, 0);
      }
    }
  }

  static std::string native_name(Function function, std::size_t count, ncclDataType_t type) {
    return std::string("native ") + (function == Function::reduce_scatter ? "ReduceScatters" : "AllGathers") +
           " of " + std::to_string(count) + " " + name_of(type);
  }

  template <typename Map>
  static void add_kind(Map& to, const sandboxNcclCall& kind) {
    constexpr std::pair<const char*, ncclDataType_t> kNames[] = {
        {"float", ncclFloat32}, {"half", ncclFloat16}, {"bfloat16", ncclBfloat16},
        {"int32", ncclInt32},   {"int8", ncclInt8},    {"double", ncclFloat64}};
    char function[32], type[32];
    unsigned long long count = 0;
    if (std::sscanf(kind.call, "%31[^(](count %llu, %31[^,)]", function, &count, type) != 3) return;
    const bool gather = std::strcmp(function, "AllGather") == 0;
    if (!gather && std::strcmp(function, "ReduceScatter") != 0) return;
    for (const auto& [name, value] : kNames) {
      if (std::strcmp(name, type) == 0)
        to[{gather ? Function::all_gather : Function::reduce_scatter, count, value}] += kind.calls;
    }
  }

  // ---- results ----

  [[nodiscard]] const Record& record(const Execution& execution, int place) const {
    return *reinterpret_cast<const Record*>(trace_.records() +
                                            execution.record[static_cast<std::size_t>(place)]);
  }
  [[nodiscard]] const std::byte* output(const Execution& execution, int place) const {
    const Record& of_rank = record(execution, place);
    return reinterpret_cast<const std::byte*>(&of_rank + 1) + of_rank.output_offset;
  }

  [[noreturn]] void wrong(const Decided& call, int place, const std::string& text) const {
    constexpr const char* kFates[] = {"native", "compressed", "recorded", "difference", "direct"};
    const auto [count, type] = shape(*call.execution->call);
    throw Wrong("step " + std::to_string(call.execution->step) + ", " +
                (call.execution->call->function == Function::reduce_scatter ? "ReduceScatter" : "AllGather") +
                " of " + std::to_string(count) + " " + name_of(type) + " on communicator " +
                std::to_string(call.state->communicator.number) + ", expected " +
                kFates[static_cast<int>(call.fate)] + ", rank " + std::to_string(place) + ": " + text);
  }

  void look_at(const Decided& call) {
    const int ranks = call.state->communicator.ranks();
    for (int place = 0; place < ranks; ++place) {
      if (const std::uint64_t touched = record(*call.execution, place).touched; touched != 0) {
        wrong(call, place,
              "byte " + std::to_string(touched - 1) + " of its buffers changed, the output begins at " +
                  std::to_string(record(*call.execution, place).output_offset));
      }
    }
    if (call.execution->call->function == Function::reduce_scatter) {
      look_at_gradient(call);
    } else {
      look_at_gather(call);
    }
  }

  void look_at_gradient(const Decided& decided) {
    const Call& call = *decided.execution->call;
    const int ranks = decided.state->communicator.ranks();
    const bool compressed = decided.fate == Fate::compressed;
    if (!compressed) count_native(decided);
    tally_.compressed_gradients += compressed;
    tally_.with_nan += call.bad_rank >= 0;
    if (call.count == 0) return;
    std::vector<Values> inputs;
    for (int place = 0; place < ranks; ++place)
      inputs.push_back(gradient_input(call, decided.execution->repeat, place, ranks));
    for (int owner = 0; owner < ranks; ++owner) {
      const GradientBound bound =
          compressed ? compressed_bound(call, decided.state->settings, decided.state->nodes, inputs, owner)
                     : native_bound(call, inputs, owner);
      const Values got = load_all(call.type, output(*decided.execution, owner), call.count);
      for (std::size_t i = 0; i < call.count; ++i) {
        const std::string where = "element " + std::to_string(i) + " is " + number(got[i]);
        if (std::isnan(got[i])) {
          if (bound.expect[i] == Expect::number)
            wrong(decided, owner, where + ", expected " + number(bound.exact[i]));
          continue;
        }
        if (bound.expect[i] == Expect::nan) wrong(decided, owner, where + ", expected a NaN");
        if (bound.expect[i] == Expect::either && std::isnan(bound.exact[i])) continue;
        if (!(std::abs(got[i] - bound.exact[i]) <= bound.error[i])) {
          wrong(decided, owner,
                where + ", expected " + number(bound.exact[i]) + " within " + number(bound.error[i]));
        }
      }
    }
  }

  void look_at_gather(Decided decided) {
    const Call& call = *decided.execution->call;
    const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
    const int ranks = decided.state->communicator.ranks();
    Gather gather;
    for (int place = 0; place < ranks; ++place) {
      Master& own = master(call.buffer, decided.execution->communicator, place);
      own.walk(call);
      gather.shards.push_back(own.shard(weight, call));
      gather.receive.push_back(record(*decided.execution, place).receive_address);
    }
    tally_.with_nan += call.bad_rank >= 0;
    const bool tracked = decided.fate == Fate::recorded || decided.fate == Fate::difference;
    WeightClass* const gathers =
        tracked ? decided.state->classes.at({weight.count, weight.type}).get() : nullptr;
    if (decided.fate == Fate::difference) {
      const std::vector<Values> before = gathers->start_difference(gather);
      if (!(decided.state->settings.vote && gathers->jumps())) {
        ++tally_.differences;
        look_at_coded(decided, weight, gather, before, decided.state->settings.weight,
                      decided.state->settings.weight_group);
        gathers->end_difference(coded_results(decided, weight));
        return;
      }
      ++tally_.voted_down;
      gathers->end_voted_down(gather);
    } else if (decided.fate == Fate::direct) {
      ++tally_.direct;
      const std::vector<Values> before(gather.shards.size(), Values(weight.count, 0.0));
      return look_at_coded(decided, weight, gather, before, {decided.state->settings.direct, true}, 128);
    } else if (decided.fate == Fate::recorded) {
      ++tally_.recorded;
      gathers->record(gather);
    }
    count_native(decided);
    look_at_exact(decided, weight, gather);
  }

  void look_at_exact(const Decided& decided, const Weight& weight, const Gather& gather) const {
    const std::size_t bytes = weight.count * bytes_of(weight.type);
    std::vector<std::byte> expected(bytes);
    for (int sender = 0; sender < decided.state->communicator.ranks(); ++sender) {
      store_all(weight.type, expected.data(), gather.shards[static_cast<std::size_t>(sender)]);
      for (int place = 0; place < decided.state->communicator.ranks(); ++place) {
        const std::byte* const got =
            output(*decided.execution, place) + static_cast<std::size_t>(sender) * bytes;
        if (bytes == 0 || std::memcmp(got, expected.data(), bytes) == 0) continue;
        wrong(decided, place, "shard " + std::to_string(sender) + " is not what its owner gave");
      }
    }
  }

  /// A rank whose copy of `sender`'s shard is what the ledger holds.
  [[nodiscard]] static int holder(int sender) { return sender == 0 ? 1 : 0; }

  [[nodiscard]] std::vector<Values> coded_results(const Decided& decided, const Weight& weight) const {
    std::vector<Values> results;
    const std::size_t bytes = weight.count * bytes_of(weight.type);
    for (int sender = 0; sender < decided.state->communicator.ranks(); ++sender) {
      results.push_back(load_all(
          weight.type, output(*decided.execution, holder(sender)) + static_cast<std::size_t>(sender) * bytes,
          weight.count));
    }
    return results;
  }

  void look_at_coded(const Decided& decided, const Weight& weight, const Gather& gather,
                     const std::vector<Values>& before, const CodecSettings& codec, std::size_t group) const {
    const int ranks = decided.state->communicator.ranks();
    const std::size_t bytes = weight.count * bytes_of(weight.type);
    const std::string& own = decided.state->settings.own_shard;
    std::vector<std::byte> exact(bytes);
    for (int sender = 0; sender < ranks; ++sender) {
      const Values& shard = gather.shards[static_cast<std::size_t>(sender)];
      store_all(weight.type, exact.data(), shard);
      const auto slice = [&](int place) {
        return output(*decided.execution, place) + static_cast<std::size_t>(sender) * bytes;
      };
      const std::byte* const held = slice(holder(sender));
      for (int place = 0; place < ranks; ++place) {
        const bool as_held = std::memcmp(slice(place), held, bytes) == 0;
        const bool is_exact = place == sender && std::memcmp(slice(place), exact.data(), bytes) == 0;
        // "auto" asks by small changes of the owner's slice whose it is.
        const bool right = place != sender || own == "replica" ? as_held : own == "exact" ? is_exact : true;
        if (!right)
          wrong(decided, place,
                "shard " + std::to_string(sender) + " is not what rank " + std::to_string(holder(sender)) +
                    " has");
      }
      look_at_shard(decided, weight, sender, shard, before[static_cast<std::size_t>(sender)],
                    load_all(weight.type, held, weight.count), codec, group);
    }
  }

  /// Every element within half its group's scale and half a distance of neighbours.
  void look_at_shard(const Decided& decided, const Weight& weight, int sender, const Values& shard,
                     const Values& before, const Values& got, const CodecSettings& codec,
                     std::size_t group) const {
    for (std::size_t first = 0; first < shard.size(); first += group) {
      const std::size_t end = std::min(first + group, shard.size());
      double largest = 0;
      bool bad = false;
      for (std::size_t i = first; i < end; ++i) {
        bad = bad || !std::isfinite(shard[i]);
        if (!bad) largest = std::max(largest, std::abs(shard[i] - before[i]));
      }
      const double scale =
          largest / codec.levels() * (decided.state->settings.bfloat16_scale ? 1 + 0x1p-7 : 1);
      for (std::size_t i = first; i < end; ++i) {
        const std::string where =
            "shard " + std::to_string(sender) + ", element " + std::to_string(i) + " is " + number(got[i]);
        if (bad && !std::isnan(got[i])) wrong(decided, holder(sender), where + ", expected a NaN");
        if (bad) continue;
        const double size = std::abs(shard[i]) + std::abs(before[i]) + largest;
        const double error = scale / 2 * (1 + 0x1p-16) +
                             half_ulp(weight.type, std::abs(shard[i]) + scale / 2) + size * 0x1p-22;
        if (std::abs(got[i] - shard[i]) <= error) continue;
        wrong(decided, holder(sender),
              where + ", expected " + number(shard[i]) + " within " + number(error) + "; the ledger held " +
                  number(before[i]));
      }
    }
  }

  const Program& program_;
  const Plan& plan_;
  const Trace& trace_;
  Tally& tally_;
  std::size_t step_ = 0;
  std::map<std::size_t, State> states_;
  std::map<int, GraphFates> graphs_;
  std::map<std::tuple<int, std::size_t, int>, Master> masters_;
  std::map<std::pair<int, Function>, std::uint64_t> compressed_;
  std::map<std::tuple<int, Function, std::size_t, ncclDataType_t>, std::uint64_t> native_;
};

}  // namespace

void Tally::add(const Tally& other) {
  native += other.native;
  compressed_gradients += other.compressed_gradients;
  recorded += other.recorded;
  differences += other.differences;
  direct += other.direct;
  voted_down += other.voted_down;
  replayed += other.replayed;
  with_nan += other.with_nan;
}

std::string judge(const Program& program, const Plan& plan, const Trace& trace, Tally& tally) {
  try {
    Judge(program, plan, trace, tally).walk();
    return {};
  } catch (const Wrong& what) {
    return what.what();
  }
}

}  // namespace sdp4bit::model
