// Draws programs: like training, round by round, with all that NCCL allows to happen in between.
//
// What no program has, for no oracle could say what comes of it without the library's own decisions: memory
// that runs out outside of the three places where the documentation says what follows (the workspace, a
// sample, a ledger); an operator that was destroyed before its call; calls under way when a communicator goes
// give no results to look at.
#include "generate.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <string>

#include "chance.h"
#include "generate_cluster.h"
#include "plan.h"

namespace sdp4bit::model {
namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : chance_(seed) { program_.seed = seed; }

  Program make() {
    draw_cluster(chance_, program_);
    draw_world();
    if (chance(45)) split();
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
  std::uint64_t next() { return chance_.next(); }
  int below(int bound) { return chance_.below(bound); }
  bool chance(int percent) { return chance_.chance(percent); }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return chance_.pick(choices);
  }
  [[nodiscard]] bool set_to(const char* name, const char* value) const {
    return program_.variable(std::string("SDP4BIT_") + name, 0, "") == value;
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

  /// Whether all processes have the same options.
  [[nodiscard]] bool alike() const {
    return std::none_of(program_.variables.begin(), program_.variables.end(), [](const Variable& variable) {
      return variable.process >= 0 && variable.name.starts_with("SDP4BIT_") && variable.name != "SDP4BIT_LOG";
    });
  }
  [[nodiscard]] RankSet one_rank() { return RankSet{1} << below(program_.ranks()); }

  // ---- communicators ----

  void draw_world() {
    Step step{.key = next(), .action = Action::create, .target = 0, .reversed = chance(20)};
    dress(step, 4);
    // NCCL enqueues calls that it has not finished on a thread of its own: nobody captures those.
    captures_ = step.nonblocking == 0;
    starves_first_ = chance(4) && set_to("COMMS", "all") && !set_to("ENABLE", "0") && captures_ && alike();
    program_.steps.push_back(step);
    hint(0);
  }

  /// A name, and some ranks that do not block.
  void dress(Step& step, int percent_nonblocking) {
    if (chance(set_to("COMMS", "all") ? 15 : 70)) {
      step.name =
          pick({"dp", "dp_shard_cp", "data_parallel_group", "default_pg", "tensor_model_parallel", "mesh_tp",
                "pipeline", "cp", "mesh_ep", "Data-Parallel", "embedding", "expert_model_parallel"});
      if (chance(15)) step.named = some_ranks(0);
    }
    if (chance(percent_nonblocking)) step.nonblocking = whole_processes(some_ranks(0));
  }

  /// One thread's groups are of one mode.
  [[nodiscard]] RankSet whole_processes(RankSet ranks) const {
    for (int rank = 0; !program_.threads && rank < program_.ranks(); ++rank) {
      for (int other = 0; has(ranks, rank) && other < program_.ranks(); ++other) {
        if (program_.process_of(other) == program_.process_of(rank)) ranks |= RankSet{1} << other;
      }
    }
    return ranks;
  }

  void hint(int comm) {
    if (!chance(set_to("COMMS", "all") ? 6 : 35)) return;
    program_.steps.push_back({.key = next(),
                              .action = Action::hint,
                              .target = comm,
                              .carries = pick({3u, 3u, 1u, 2u, 0u}),
                              .ranks = chance(60) ? kAllRanks : some_ranks(0)});
  }

  void split() {
    if (shrunk_) return;
    Step step{
        .key = next(), .action = Action::create, .target = ++last_comm_, .from = 0, .reversed = chance(30)};
    const int how = below(5);
    switch (how) {
      case 0:
        break;  // all again
      case 1:
        step.colors = {0, 1};
        break;
      case 2:
        step.colors = {0, 0, 1, 1};
        break;
      case 3:
        step.colors = {0, 0, 0, -1};
        break;
      default:
        exclude_some(step, Birth::shrink);
        shrunk_ = true;  // who was left out does not count it as a child of the world's
    }
    part_is_whole_ = how == 0;
    add_part(step);
  }

  void exclude_some(Step& step, Birth birth) {
    step.birth = birth;
    step.reversed = false;
    step.colors = program_.ranks() > 3 && chance(50) ? std::vector{0, 0, 0, -1} : std::vector{0, -1};
  }

  void add_part(Step step) {
    dress(step, 12);
    const bool some_stay_out =
        std::any_of(step.colors.begin(), step.colors.end(), [](int c) { return c < 0; });
    if (some_stay_out && !program_.threads) step.nonblocking = 0;  // they are in the group with their parent
    program_.steps.push_back(step);
    part_ = step.target;
    part_blocks_ =
        step.nonblocking == 0 && (step.from == 0 || part_blocks_);  // as the parent, if it says nothing
    part_checks_ = set_to("CHECK", "1") && alike() && captures_ && part_blocks_;
    hint(part_);
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
                    .misaligned = chance(40),
                    .odd = chance(15),
                    .kept = 0};
      if (!program_.weights.empty() && chance(55)) {
        weight.count = program_.weights.back().count;
        weight.type = program_.weights.back().type;
        weight.comm = program_.weights.back().comm;
      }
      if (weight.type != ncclInt32 && !set_to("OWN_SHARD", "replica") && chance(35))
        weight.kept = chance(60) ? kAllRanks : some_ranks(0);
      // Optimizers treat weights alike that are gathered alike.
      for (const Weight& other : program_.weights) {
        if (other.comm == weight.comm && other.count == weight.count && other.type == weight.type)
          weight.kept = other.kept;
      }
      program_.weights.push_back(weight);
    }
    // Frameworks do the same each time; only then a step in an own slice has an answer.
    if (chance(50)) always_in_place_ = chance(65) ? kAllRanks : some_ranks(0);
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
    call.odd = chance(10);
    return call;
  }

  /// One that is NCCL's alone.
  Call other(int place) {
    Call call = gradient(place);
    call.function = pick({Function::all_reduce, Function::broadcast, Function::send_recv});
    return call;
  }

  Call gather(int weight) {
    Call call{.key = next(), .function = Function::all_gather, .buffer = weight};
    call.drift = chance(92) ? drift_ : 0;
    const ncclDataType_t type = program_.weights[static_cast<std::size_t>(weight)].type;
    const bool kept = program_.weights[static_cast<std::size_t>(weight)].kept != 0;
    if (chance(2) && type != ncclInt32 && !kept) call.bad_rank = below(2);
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
    call.in_place =
        always_in_place_ != 0 && call.function == Function::all_gather ? always_in_place_ : some_ranks(45);
    call.overwrite = some_ranks(60);
    call.nested = chance(10) ? 1 + below(2) : 0;
  }

  void push(std::vector<Call> calls) {
    if (calls.empty()) return;
    if (!part_blocks_) {  // in one group NCCL takes communicators of one mode
      const auto of_part = std::stable_partition(
          calls.begin(), calls.end(), [&](const Call& call) { return comm_of(program_, call) != part_; });
      if (of_part != calls.begin() && of_part != calls.end()) {
        push({calls.begin(), of_part});
        return push({of_part, calls.end()});
      }
    }
    Step step{.key = next(), .action = Action::group, .calls = std::move(calls)};
    starve(step);
    program_.steps.push_back(std::move(step));
  }

  /// Where the documentation says what follows: at the first call, and when all communicators have long
  /// agreed.
  void starve(Step& step) {
    bool first = false, agreed = true;
    std::map<int, int> launched;
    for (const Call& call : step.calls) {
      const int comm = comm_of(program_, call);
      if (!is_ours(call.function) || (call.function != Function::all_gather && call.count == 0)) continue;
      ++launched[comm];
      first = first || (comm == 0 && launched_[0] == 0);
      agreed = agreed && agreed_[comm];
      if (launched_[comm] >= 3) agreed_[comm] = true;
    }
    for (const auto& [comm, calls] : launched) launched_[comm] += calls;
    if (first ? starves_first_ && launched.size() == 1 : agreed && chance(4)) step.starved = one_rank();
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
    if (chance(12)) {
      for (int i = 0, some = 1 + below(2); i < some; ++i) calls.push_back(other(4 + i));
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
    switch (below(18)) {
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
      case 14:
      case 15:
        return recreate();
      case 10:
        step.action = Action::simulate;
        step.ranks = some_ranks(0);
        step.calls = {gradient(6), gather(weight())};
        if (dead(step.calls[1])) step.calls.pop_back();
        program_.steps.push_back(step);
        return;
      case 11:
        if (set_to("CHECK", "1")) return;  // ranks compare calls also where NCCL would refuse one
        step.action = Action::refused;
        step.ranks = some_ranks(0);
        program_.steps.push_back(step);
        return;
      case 13:
        step.action = Action::reset;
        step.target = part_ != 0 && chance(30) ? part_ : 0;
        step.ranks = chance(60) ? kAllRanks : some_ranks(0);
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
    if (part_ == 0 || chance(20)) return;
    const int old = part_;
    part_ = 0;
    if (chance(15) && part_is_whole_ && program_.ranks() > 2) return shrink_after_an_error(old);
    Step step{.key = next(), .action = Action::destroy, .target = old};
    // While a call that does not block is under way NCCL revokes nothing.
    step.finalized = chance(50);
    if (chance(60)) step.action = part_blocks_ && captures_ && chance(40) ? Action::revoke : Action::abort;
    if (part_checks_ && part_is_whole_ && agreed_[old]) {
      differ(old);
      step.action = Action::abort;
    } else if (step.action != Action::destroy && chance(60)) {
      keep_busy(step);
    }
    program_.steps.push_back(step);
    if (chance(70)) split();
  }

  /// Some ranks are in calls that the others never make.
  void keep_busy(Step& step) {
    step.ranks = some_ranks(0);
    step.milliseconds = 1 + below(3);
    for (int i = 0, calls = 1 + below(2); i < calls; ++i) {
      Call call = chance(70) ? gradient(0) : other(0);
      call.comm = step.target;
      call.buffer = 1000 + 10 * step.target + i;
      step.calls.push_back(call);
    }
  }

  void shrink_after_an_error(int old) {
    Step step{.key = next(), .action = Action::create, .target = ++last_comm_, .from = old};
    exclude_some(step, Birth::shrink_abort);
    add_part(step);
    part_is_whole_ = false;
    program_.steps.push_back({.key = next(), .action = Action::abort, .target = old});
  }

  void differ(int comm) {
    Step step{.key = next(), .action = Action::differ, .target = comm, .ranks = one_rank()};
    Call call = gradient(0);
    call.comm = comm;
    call.count = static_cast<std::size_t>(100 + below(100));
    call.buffer = 500 + comm;
    call.nested = 0;
    step.calls = {call};
    program_.steps.push_back(step);
  }

  /// Captures a few calls, or replays what was captured.
  void graph() {
    if (!captures_) return;
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
        if (chance(12)) call.function = pick({Function::all_reduce, Function::broadcast});
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

  Chance chance_;
  Program program_;
  int last_comm_ = 0, part_ = 0, graphs_ = 0, grouped_ = 0;
  bool part_is_whole_ = false, part_checks_ = false, part_blocks_ = true, shrunk_ = false;
  RankSet always_in_place_ = 0;  // these and no others, in AllGathers; 0: it changes
  bool captures_ = true, starves_first_ = false;
  std::map<int, int> launched_;  // calls by communicator
  std::map<int, bool> agreed_;   // since an earlier group
  bool gathers_ = true;          // more weights than gradients
  unsigned fixed_ = 0;           // weights that graphs use
  double drift_ = 1e-2;
};

}  // namespace

Program generate(std::uint64_t seed) {
  return Generator(seed).make();
}

}  // namespace sdp4bit::model
