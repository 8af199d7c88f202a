// Programs made concrete; see plan.h.
#include "plan.h"

#include <algorithm>
#include <stdexcept>

#include "values.h"

namespace sdp4bit::model {
namespace {

constexpr std::size_t kAlign = 256;

std::size_t up(std::size_t value) {
  return (value + kAlign - 1) / kAlign * kAlign;
}

void require(bool condition, const char* text) {
  if (!condition) throw std::runtime_error(text);
}

std::size_t shift(const Call& call, int rank, std::uint64_t which) {
  return shift_of(
      mix(mix(static_cast<std::uint64_t>(call.misaligned), which), static_cast<std::uint64_t>(rank)),
      bytes_of(call.type), call.misaligned != 0, call.odd);
}

}  // namespace

std::size_t shift_of(std::uint64_t random, std::size_t element_bytes, bool elements, bool parts) {
  return (elements ? random % (kMostShift + 1) * element_bytes : 0) +
         (parts ? mix(random, 11) % element_bytes : 0);
}

int place_of(const Communicator& communicator, int rank) {
  const auto found = std::find(communicator.members.begin(), communicator.members.end(), rank);
  return found == communicator.members.end() ? -1 : static_cast<int>(found - communicator.members.begin());
}

int comm_of(const Program& program, const Call& call) {
  return call.function == Function::all_gather
             ? program.weights.at(static_cast<std::size_t>(call.buffer)).comm
             : call.comm;
}

int root_of(const Call& call, int ranks) {
  return static_cast<int>(mix(call.key, 5) % static_cast<std::uint64_t>(ranks));
}

bool is_in_place_on(const Program& program, const Call& call, int rank) {
  return has(call.in_place | program.weights[static_cast<std::size_t>(call.buffer)].kept, rank);
}

std::size_t input_count(const Call& call, int ranks) {
  return call.count * (call.function == Function::reduce_scatter ? static_cast<std::size_t>(ranks) : 1);
}

Plan::Plan(const Program& program) : program_(program), alive_(static_cast<std::size_t>(program.ranks())) {
  require(!program.processes.empty() && program.ranks() <= 16, "no ranks, or too many");
  std::map<int, std::pair<const Step*, std::uint64_t>> graphs;  // and how often they were replayed
  std::set<int> fixed;                                          // weights that graphs use
  for (std::size_t index = 0; index < program.steps.size(); ++index) {
    const Step& step = program.steps[index];
    of_step.emplace_back();
    for (const Call& call : step.calls) {
      if (call.function != Function::all_gather) continue;
      require(call.buffer >= 0 && static_cast<std::size_t>(call.buffer) < program.weights.size(),
              "no such weight");
      const Weight& weight = program.weights[static_cast<std::size_t>(call.buffer)];
      require(weight.kept == 0 || call.bad_rank < 0, "a NaN would stay in the only copy");
      if (step.action == Action::capture) fixed.insert(call.buffer);
    }
    switch (step.action) {
      case Action::create:
        create(step);
        break;
      case Action::abort:
      case Action::revoke:
        for (const Call& call : step.calls) {
          require(comm_of(program, call) == step.target && call.function != Function::all_gather,
                  "only the communicator that goes may be busy");
        }
        [[fallthrough]];
      case Action::destroy:
        for (auto& of_rank : alive_) of_rank.erase(step.target);
        break;
      case Action::differ:
        require(step.calls.size() == 1 && step.calls[0].function == Function::reduce_scatter,
                "ranks differ in one ReduceScatter");
        break;
      case Action::group:
        for (const Call& call : step.calls) execute(index, call, 0);
        break;
      case Action::capture:
        require(!graphs.contains(step.target), "a graph's number comes twice");
        for (const Call& call : step.calls) {
          for (std::size_t rank = 0; rank < alive_.size(); ++rank) {
            require(alive_[rank].contains(comm_of(program, call)), "a graph's calls are of all ranks");
          }
        }
        graphs[step.target] = {&step, 0};
        break;
      case Action::replay:
        require(graphs.contains(step.target), "a replay without its graph");
        for (const Call& call : graphs[step.target].first->calls)
          execute(index, call, graphs[step.target].second);
        ++graphs[step.target].second;
        break;
      case Action::move:
      case Action::exchange:
        require(!fixed.contains(step.target) && !fixed.contains(step.from), "a graph's buffers stay");
        [[fallthrough]];
      case Action::reload:
      case Action::scribble:
        require(static_cast<std::size_t>(step.target) < program.weights.size(), "no such weight");
        break;
      default:
        break;
    }
  }
}

int color_of(const Step& step, std::size_t place) {
  if (step.colors.empty()) return 0;
  const int color = step.colors[place % step.colors.size()];
  return step.birth == Birth::split ? color : std::min(color, 0);
}

void Plan::create(const Step& step) {
  std::vector<Communicator> parents;
  if (step.from < 0) {
    Communicator all;
    for (int rank = 0; rank < program_.ranks(); ++rank) all.members.push_back(rank);
    parents.push_back(all);
  } else {
    std::set<std::size_t> seen;
    for (const auto& of_rank : alive_) {
      if (const auto found = of_rank.find(step.from); found != of_rank.end()) seen.insert(found->second);
    }
    require(!seen.empty(), "a split of nothing");
    for (const std::size_t index : seen) parents.push_back(communicators[index]);
  }
  require(numbers_.insert(step.target).second, "a communicator's number comes twice");
  require(!shrunk_.contains(step.from), "who was left out of a shrink does not count its child");
  if (step.birth != Birth::split) shrunk_.insert(step.from);
  for (const Communicator& parent : parents) {
    std::map<int, std::vector<int>> by_color;
    for (std::size_t place = 0; place < parent.members.size(); ++place) {
      const int color = color_of(step, place);
      if (color >= 0) by_color[color].push_back(parent.members[place]);
    }
    if (step.birth != Birth::split)
      require(by_color.size() == 1 && by_color[0].size() < parent.members.size(), "nothing to exclude");
    for (auto& [color, members] : by_color) {
      if (step.reversed && step.birth == Birth::split) std::reverse(members.begin(), members.end());
      Communicator made{.number = step.target, .part = step.from >= 0, .members = members, .name = step.name};
      for (const int member : members) {
        alive_[static_cast<std::size_t>(member)][step.target] = communicators.size();
        if (!step.name.empty() && has(step.named, member)) made.named |= RankSet{1} << member;
        // Parts do as their parents do where nobody says otherwise.
        if (has(step.nonblocking | parent.nonblocking, member)) made.nonblocking |= RankSet{1} << member;
      }
      communicators.push_back(std::move(made));
    }
  }
}

void Plan::execute(std::size_t step, const Call& call, std::uint64_t repeat) {
  std::set<std::size_t> instances;
  for (const auto& of_rank : alive_) {
    if (const auto found = of_rank.find(comm_of(program_, call)); found != of_rank.end())
      instances.insert(found->second);
  }
  require(!instances.empty(), "a call on no communicator");
  for (const std::size_t index : instances) {
    const Communicator& communicator = communicators[index];
    Execution execution{.step = step, .call = &call, .repeat = repeat, .communicator = index, .record = {}};
    for (int place = 0; place < communicator.ranks(); ++place) {
      execution.record.push_back(trace_bytes);
      const int rank = communicator.members[static_cast<std::size_t>(place)];
      trace_bytes += up(sizeof(Record) + 2 * capacity(call, rank, place, communicator.ranks()));
    }
    of_step[step].push_back(executions.size());
    executions.push_back(std::move(execution));
  }
}

int Plan::communicator_of(int number, int rank) const {
  for (std::size_t index = 0; index < communicators.size(); ++index) {
    if (communicators[index].number == number && place_of(communicators[index], rank) >= 0)
      return static_cast<int>(index);
  }
  return -1;
}

CallAreas Plan::areas(const Call& call, int rank, int place, int ranks) {
  const std::size_t segment = call.count * bytes_of(call.type);
  CallAreas areas;
  areas.send = kMargin + shift(call, rank, 1);
  const std::size_t end = up(areas.send + input_count(call, ranks) * bytes_of(call.type)) + kMargin;
  areas.receive = end + shift(call, rank, 2);
  areas.bytes = up(areas.receive + segment) + kMargin;
  if (!has(call.in_place, rank) || call.function == Function::send_recv) return areas;
  areas.receive = areas.send;
  if (call.function == Function::reduce_scatter) areas.receive += static_cast<std::size_t>(place) * segment;
  return areas;
}

std::size_t Plan::capacity(const Call& call, int rank, int place, int ranks) const {
  if (call.function != Function::all_gather) return areas(call, rank, place, ranks).bytes;
  const Weight& weight = program_.weights[static_cast<std::size_t>(call.buffer)];
  return receive_bytes(weight, ranks) + send_bytes(weight);
}

std::size_t Plan::receive_bytes(const Weight& weight, int ranks) const {
  return 2 * kMargin +
         up((weight.count * static_cast<std::size_t>(ranks) + kMostShift + 1) * bytes_of(weight.type));
}

std::size_t Plan::send_bytes(const Weight& weight) const {
  return 2 * kMargin + up((weight.count + kMostShift + 1) * bytes_of(weight.type));
}

}  // namespace sdp4bit::model
