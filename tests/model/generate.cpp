// Draws programs: like training, round by round, with all that NCCL allows to happen in between.
#include "generate.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "values.h"

namespace sdp4bit::model {
namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(mix(seed, 4242)) { program_.seed = seed; }

  Program make() {
    draw_cluster();
    draw_variables();
    program_.steps.push_back({.key = next(), .action = Action::create, .target = 0, .reversed = chance(20)});
    if (chance(35)) split();
    draw_weights();
    // Weights need many rounds until they travel as differences.
    gathers_ = chance(65);
    const int rounds = gathers_ ? 12 + below(20) : 5 + below(8);
    grouped_ = below(3);
    for (int round = 0; round < rounds; ++round) {
      if (chance(45)) disturb();
      draw_round();
    }
    return std::move(program_);
  }

 private:
  // ---- chance ----

  std::uint64_t next() { return state_ = mix(state_, 99); }
  int below(int bound) { return static_cast<int>(next() % static_cast<std::uint64_t>(bound)); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<int>(choices.size())));
  }
  /// None, all, one, or some.
  RankSet some_ranks(int percent_none) {
    if (chance(percent_none)) return 0;
    const int ranks = program_.ranks();
    const RankSet all = (RankSet{1} << ranks) - 1;
    switch (below(4)) {
      case 0:
        return all;
      case 1:
      case 2:
        return RankSet{1} << below(ranks);
      default:
        return static_cast<RankSet>(next()) & all;
    }
  }

  // ---- the cluster ----

  void draw_cluster() {
    program_.threads = chance(60);
    std::vector<Process>& processes = program_.processes;
    switch (below(10)) {
      case 0:
      case 1:
      case 2:  // one process, nodes by SDP4BIT_LOCAL_SIZE
        processes = {{0, 2 + below(5)}};
        local_size_ = 1 + below(2);
        if (chance(15)) local_size_ = 0;
        break;
      case 3:  // unequal nodes
        processes = {{0, 1}, {1, 2 + below(2)}};
        break;
      case 4:  // two processes on each node, or ranks of nodes out of order
        processes = {{0, 1}, {chance(50) ? 0 : 1, 1}, {1, 1}, {chance(50) ? 0 : 1, 1}};
        break;
      case 5:
        processes = {{0, 1}, {1, 1}, {2, 1}};
        break;
      case 6:
        processes = {{0, 3}, {1, 3}};
        break;
      case 7:
        if (chance(30)) {
          processes = {{0, 4}, {1, 4}};
          break;
        }
        [[fallthrough]];
      default:
        processes = {{0, 2}, {1, 2}};
    }
  }

  void set(const char* name, const std::string& value, int process = -1) {
    program_.variables.push_back({process, std::string("SDP4BIT_") + name, value});
  }
  void maybe(int percent, const char* name, std::initializer_list<const char*> values) {
    if (chance(percent)) set(name, pick(values));
  }

  void draw_variables() {
    set("COMMS", chance(85) ? "all" : pick({"auto", "spans-nodes", "ranks>=3"}));
    set("MIN_BYTES", chance(90) ? "0" : "4K");
    if (local_size_ != 0) set("LOCAL_SIZE", std::to_string(local_size_));
    // A small workspace holds only small groups.
    const bool small = chance(25);
    set("WORKSPACE", small ? "32K" : "1M");
    if (small) {
      set("GRAD_GROUP", pick({"32", "64", "128"}));
      set("WEIGHT_GROUP", pick({"32", "128"}));
    } else {
      maybe(50, "GRAD_GROUP", {"32", "64", "256", "1024"});
      maybe(50, "WEIGHT_GROUP", {"32", "128", "512"});
    }
    set("WEIGHT_LEDGER", chance(55) ? "full" : chance(93) ? "node" : "off");
    set("OWN_SHARD", pick({"replica", "replica", "exact"}));
    maybe(25, "CODEC_INTER", {"int4-rn", "int8-sr", "int8-rn"});
    maybe(25, "CODEC_INTRA", {"int4-sr", "int4-rn", "int8-rn"});
    maybe(20, "HADAMARD", {"0"});
    maybe(25, "SCALE", {"bf16"});
    maybe(15, "CODEC_WEIGHT", {"int8"});
    maybe(12, "WEIGHT_VOTE", {"1"});
    maybe(35, "WEIGHT_REFRESH", {"0", "1", "2", "5"});
    maybe(10, "WEIGHT_DIRECT", {"8", "4"});
    maybe(70, "WEIGHT_TYPES", {"bf16,fp16,fp32", "bf16,fp16,fp32", "bf16,fp16,fp32", "fp16,fp32"});
    maybe(6, "GRAD_TYPES", {"bf16", "fp16,fp32"});
    maybe(6, "COLLECTIVES", {"reduce_scatter", "all_gather"});
    maybe(8, "START_CALL", {"2", "6"});
    maybe(10, "SEED", {"7"});
    maybe(3, "ENABLE", {"0"});
    if (program_.processes.size() > 1 && chance(5)) {
      const std::array<std::pair<const char*, const char*>, 5> odd{
          {{"SEED", "8"}, {"ENABLE", "0"}, {"MIN_BYTES", "64"}, {"HADAMARD", "0"}, {"WEIGHT_REFRESH", "9"}}};
      const auto& [name, value] = odd[static_cast<std::size_t>(below(static_cast<int>(odd.size())))];
      set(name, value, below(static_cast<int>(program_.processes.size())));
    }
    if (chance(10)) set("LOG", "info", below(static_cast<int>(program_.processes.size())));
  }

  void split() {
    Step step{
        .key = next(), .action = Action::create, .target = ++last_comm_, .from = 0, .reversed = chance(30)};
    switch (below(4)) {
      case 0:
        break;  // all again
      case 1:
        step.colors = {0, 1};
        break;
      case 2:
        step.colors = {0, 0, 1, 1};
        break;
      default:
        step.colors = {0, 0, 0, -1};
    }
    program_.steps.push_back(step);
    part_ = last_comm_;
  }

  std::size_t count() {
    if (chance(12)) return static_cast<std::size_t>(pick({0, 1, 2, 7, 31}));
    if (chance(50)) return static_cast<std::size_t>(pick({32, 33, 127, 128, 129, 255, 257, 300}));
    return static_cast<std::size_t>(1 + below(chance(15) ? 2500 : 600));
  }

  void draw_weights() {
    const int weights = 1 + below(3);
    for (int i = 0; i < weights; ++i) {
      Weight weight{.comm = part_ != 0 && chance(25) ? part_ : 0,
                    .count = std::max<std::size_t>(count(), 1),
                    .type = chance(4)
                                ? ncclInt32
                                : pick({ncclBfloat16, ncclBfloat16, ncclBfloat16, ncclFloat16, ncclFloat32}),
                    .misaligned = chance(40)};
      if (!program_.weights.empty() && chance(55)) {
        weight.count = program_.weights.back().count;
        weight.type = program_.weights.back().type;
        weight.comm = program_.weights.back().comm;
      }
      program_.weights.push_back(weight);
    }
    // Most programs walk in small steps; a rotating pool does not.
    drift_ = chance(85) ? pick({1e-2, 3e-3, 1e-3}) : 0.5;
  }

  // ---- rounds ----

  Call gradient(int place) {
    const int stream = below(kStreams);
    Call call{.key = next(),
              .function = Function::reduce_scatter,
              .comm = part_ != 0 && chance(30) ? part_ : 0,
              .buffer = stream * 8 + place,
              .count = count(),
              .type = pick({ncclFloat32, ncclFloat32, ncclBfloat16, ncclBfloat16, ncclFloat16}),
              .reduction = pick({Reduction::sum, Reduction::avg, Reduction::scaled}),
              .factor = pick({0.5, 0.375, 2.0}),
              .factor_on_device = chance(50),
              .data = pick({Data::whole, Data::normal, Data::normal, Data::sparse, Data::large})};
    if (chance(12)) {
      call.type = pick({ncclInt32, ncclInt8, ncclFloat64, ncclFloat32});
      call.reduction = pick({Reduction::max, Reduction::sum});
      call.data = Data::whole;
    }
    if (chance(6) && bytes_of(call.type) != 1 && call.type != ncclInt32) call.bad_rank = below(2);
    vary(call, stream);
    call.misaligned = chance(40) ? 1 + below(1000) : 0;
    return call;
  }

  Call gather(int weight) {
    Call call{.key = next(), .function = Function::all_gather, .buffer = weight};
    call.drift = chance(92) ? drift_ : 0;
    const ncclDataType_t type = program_.weights[static_cast<std::size_t>(weight)].type;
    if (chance(2) && type != ncclInt32) call.bad_rank = below(2);
    vary(call, weight % kStreams);
    return call;
  }

  /// Whether the communicator of a weight is gone.
  [[nodiscard]] bool dead(const Call& call) const {
    const int comm = program_.weights[static_cast<std::size_t>(call.buffer)].comm;
    return comm != 0 && comm != part_;
  }

  void vary(Call& call, int stream) {
    call.stream = chance(70) ? stream : below(kStreams);
    call.other_stream = some_ranks(80);
    call.in_place = some_ranks(45);
    call.overwrite = some_ranks(60);
    call.nested = chance(10) ? 1 + below(2) : 0;
  }

  void push(std::vector<Call> calls) {
    if (calls.empty()) return;
    program_.steps.push_back({.key = next(), .action = Action::group, .calls = std::move(calls)});
  }

  void draw_round() {
    std::vector<Call> calls;
    const int gradients = gathers_ ? pick({0, 0, 0, 1, 2}) : pick({1, 2, 3});
    for (int i = 0; i < gradients; ++i) calls.push_back(gradient(i));
    for (std::size_t weight = 0; weight < program_.weights.size(); ++weight) {
      if (chance(gathers_ ? 4 : 50)) continue;
      const Call call = gather(static_cast<int>(weight));
      if (!dead(call)) calls.push_back(call);
    }
    if (chance(20)) std::reverse(calls.begin(), calls.end());
    // As one group, call by call, or now and then the one and the other.
    const bool group = grouped_ == 0 ? false : grouped_ == 1 ? true : chance(50);
    if (group) return push(calls);
    for (const Call& call : calls) push({call});
  }

  // ---- in between ----

  int weight() { return below(static_cast<int>(program_.weights.size())); }

  void disturb() {
    Step step{.key = next()};
    switch (below(15)) {
      case 0:
        step.action = Action::reload;
        step.ranks = some_ranks(0);
        break;
      case 1:
      case 2:
        step.action = Action::scribble;
        step.ranks = some_ranks(0);
        break;
      case 3:
        step.action = Action::move;
        step.ranks = some_ranks(0);
        break;
      case 4:
        step.action = Action::exchange;
        step.ranks = some_ranks(0);
        step.from = weight();
        break;
      case 5:
      case 6:
      case 7:
        program_.steps.push_back({.key = step.key,
                                  .action = Action::delay,
                                  .ranks = some_ranks(0),
                                  .stream = below(kStreams + 1) - 1,
                                  .milliseconds = 1 + below(3)});
        return;
      case 8:
        program_.steps.push_back({.key = step.key, .action = Action::synchronize, .ranks = some_ranks(0)});
        return;
      case 9:
        return recreate();
      case 10:
        step.action = Action::simulate;
        step.ranks = some_ranks(0);
        step.calls = {gradient(6), gather(weight())};
        if (dead(step.calls[1])) step.calls.pop_back();
        program_.steps.push_back(step);
        return;
      case 11:
        step.action = Action::refused;
        step.ranks = some_ranks(0);
        program_.steps.push_back(step);
        return;
      case 12:
        step.action = Action::release;
        step.ranks = some_ranks(0);
        step.target = below(kStreams) * 8;
        program_.steps.push_back(step);
        return;
      default:
        return graph();
    }
    step.target = weight();
    if (fixed_ >> step.target & 1 || (step.action == Action::exchange && fixed_ >> step.from & 1)) {
      if (step.action == Action::move || step.action == Action::exchange) return;
    }
    program_.steps.push_back(step);
  }

  void recreate() {
    if (part_ == 0 || fixed_ != 0 || graphs_ != 0 || chance(50)) return;
    program_.steps.push_back(
        {.key = next(), .action = chance(70) ? Action::destroy : Action::abort, .target = part_});
    part_ = 0;
    if (chance(70)) split();
  }

  /// Captures a few calls, or replays what was captured.
  void graph() {
    if (graphs_ != 0 && chance(70)) {
      for (int times = 1 + below(2); times > 0; --times) {
        program_.steps.push_back({.key = next(),
                                  .action = Action::replay,
                                  .target = 1 + below(graphs_),
                                  .stream = below(kStreams)});
      }
      return;
    }
    if (graphs_ == 2) return;
    Step step{.key = next(), .action = Action::capture, .target = ++graphs_, .stream = below(kStreams - 1)};
    const int calls = 1 + below(3);
    for (int i = 0; i < calls; ++i) {
      if (chance(75)) {
        Call call = gradient(i);
        call.comm = 0;
        call.buffer = 100 + graphs_ * 8 + i;
        step.calls.push_back(call);
        continue;
      }
      const int of = weight();
      const bool used = std::any_of(step.calls.begin(), step.calls.end(), [&](const Call& call) {
        return call.function == Function::all_gather && call.buffer == of;
      });
      if (used || program_.weights[static_cast<std::size_t>(of)].comm != 0) continue;
      step.calls.push_back(gather(of));
      fixed_ |= 1u << of;
    }
    if (step.calls.empty()) {
      --graphs_;
      return;
    }
    program_.steps.push_back(step);
    program_.steps.push_back(
        {.key = next(), .action = Action::replay, .target = graphs_, .stream = step.stream});
  }

  std::uint64_t state_;
  Program program_;
  int local_size_ = 0, last_comm_ = 0, part_ = 0, graphs_ = 0, grouped_ = 0;
  bool gathers_ = true;  // more weights than gradients
  unsigned fixed_ = 0;   // weights that graphs use
  double drift_ = 1e-2;
};

}  // namespace

Program generate(std::uint64_t seed) {
  return Generator(seed).make();
}

}  // namespace sdp4bit::model
