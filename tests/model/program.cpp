// Programs as text: every field has one name, which printer and parser share.
#include "program.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <type_traits>

namespace sdp4bit::model {
namespace {

/// The names of an enumeration's values.
template <typename Value>
struct Named {
  Value value;
  const char* name;
};
template <typename Value>
constexpr int kNames = 0;
template <>
constexpr auto kNames<ncclDataType_t> = std::to_array<Named<ncclDataType_t>>({{ncclFloat32, "fp32"},
                                                                              {ncclFloat16, "fp16"},
                                                                              {ncclBfloat16, "bf16"},
                                                                              {ncclInt32, "int32"},
                                                                              {ncclInt8, "int8"},
                                                                              {ncclFloat64, "fp64"}});
template <>
constexpr auto kNames<Function> = std::to_array<Named<Function>>({{Function::reduce_scatter,
                                                                   "reduce_scatter"},
                                                                  {Function::all_gather, "all_gather"},
                                                                  {Function::all_reduce, "all_reduce"},
                                                                  {Function::broadcast, "broadcast"},
                                                                  {Function::send_recv, "send_recv"}});
template <>
constexpr auto kNames<Reduction> = std::to_array<Named<Reduction>>({{Reduction::sum, "sum"},
                                                                    {Reduction::avg, "avg"},
                                                                    {Reduction::scaled, "scaled"},
                                                                    {Reduction::max, "max"}});
template <>
constexpr auto kNames<Data> = std::to_array<Named<Data>>(
    {{Data::whole, "whole"}, {Data::normal, "normal"}, {Data::sparse, "sparse"}, {Data::large, "large"}});
template <>
constexpr auto kNames<Birth> = std::to_array<Named<Birth>>({{Birth::split, "split"},
                                                            {Birth::shrink, "shrink"},
                                                            {Birth::shrink_abort, "shrink_abort"}});
template <>
constexpr auto kNames<Action> = std::to_array<Named<Action>>({{Action::create, "create"},
                                                              {Action::destroy, "destroy"},
                                                              {Action::abort, "abort"},
                                                              {Action::revoke, "revoke"},
                                                              {Action::hint, "hint"},
                                                              {Action::reset, "reset"},
                                                              {Action::group, "group"},
                                                              {Action::differ, "differ"},
                                                              {Action::capture, "capture"},
                                                              {Action::replay, "replay"},
                                                              {Action::simulate, "simulate"},
                                                              {Action::refused, "refused"},
                                                              {Action::release, "release"},
                                                              {Action::reload, "reload"},
                                                              {Action::scribble, "scribble"},
                                                              {Action::move, "move"},
                                                              {Action::exchange, "exchange"},
                                                              {Action::delay, "delay"},
                                                              {Action::synchronize, "synchronize"}});

template <typename Value>
const char* find_name(Value value) {
  for (const auto& known : kNames<Value>) {
    if (known.value == value) return known.name;
  }
  throw std::runtime_error("a value without a name");
}

template <typename Value>
std::string to_text(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return find_name(value);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<Value, std::vector<int>>) {
    std::string text;
    for (const int part : value) text += (text.empty() ? "" : ",") + std::to_string(part);
    return text;
  } else if constexpr (std::is_floating_point_v<Value>) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.17g", value);
    return text.data();
  } else {
    return std::to_string(value);
  }
}

template <typename Value>
void from_text(const std::string& text, Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    for (const auto& known : kNames<Value>) {
      if (text == known.name) {
        value = known.value;
        return;
      }
    }
    throw std::runtime_error("\"" + text + "\" is not known");
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value = text;
  } else if constexpr (std::is_same_v<Value, std::vector<int>>) {
    std::stringstream parts(text);
    value.clear();
    for (std::string part; std::getline(parts, part, ',');) value.push_back(std::stoi(part));
  } else if constexpr (std::is_floating_point_v<Value>) {
    value = std::stod(text);
  } else {
    value = static_cast<Value>(std::stoull(text[0] == '-' ? "0" : text));
    if (text[0] == '-') value = static_cast<Value>(std::stoll(text));
  }
}

template <typename Visit>
void visit_fields(Process& process, Visit& visit) {
  visit("node", process.node);
  visit("devices", process.devices);
}
template <typename Visit>
void visit_fields(Variable& variable, Visit& visit) {
  visit("process", variable.process);
  visit("name", variable.name);
  visit("value", variable.value);
}
template <typename Visit>
void visit_fields(Weight& weight, Visit& visit) {
  visit("comm", weight.comm);
  visit("count", weight.count);
  visit("type", weight.type);
  visit("misaligned", weight.misaligned);
  visit("odd", weight.odd);
  visit("kept", weight.kept);
}
template <typename Visit>
void visit_fields(Call& call, Visit& visit) {
  visit("function", call.function);
  visit("key", call.key);
  visit("comm", call.comm);
  visit("buffer", call.buffer);
  visit("count", call.count);
  visit("type", call.type);
  visit("reduction", call.reduction);
  visit("factor", call.factor);
  visit("factor_on_device", call.factor_on_device);
  visit("data", call.data);
  visit("bad_rank", call.bad_rank);
  visit("drift", call.drift);
  visit("stream", call.stream);
  visit("other_stream", call.other_stream);
  visit("in_place", call.in_place);
  visit("misaligned", call.misaligned);
  visit("odd", call.odd);
  visit("overwrite", call.overwrite);
  visit("nested", call.nested);
}
template <typename Visit>
void visit_fields(Step& step, Visit& visit) {
  visit("action", step.action);
  visit("key", step.key);
  visit("target", step.target);
  visit("from", step.from);
  visit("colors", step.colors);
  visit("reversed", step.reversed);
  visit("birth", step.birth);
  visit("name", step.name);
  visit("named", step.named);
  visit("nonblocking", step.nonblocking);
  visit("carries", step.carries);
  visit("ranks", step.ranks);
  visit("starved", step.starved);
  visit("finalized", step.finalized);
  visit("stream", step.stream);
  visit("milliseconds", step.milliseconds);
}

/// Only what differs from a default thing.
template <typename Thing>
std::string line(const char* word, Thing thing) {
  std::vector<std::pair<std::string, std::string>> fields;
  const auto collect = [&](const char* name, const auto& value) {
    fields.emplace_back(name, to_text(value));
  };
  Thing usual{};
  visit_fields(usual, collect);
  const auto defaults = std::exchange(fields, {});
  visit_fields(thing, collect);
  std::string text = word;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != defaults[i] || i == 0) text += " " + fields[i].first + "=" + fields[i].second;
  }
  return text + "\n";
}

template <typename Thing>
Thing read(std::stringstream& words) {
  Thing thing{};
  for (std::string word; words >> word;) {
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal),
                      text = word.substr(equal == std::string::npos ? word.size() : equal + 1);
    bool known = false;
    const auto assign = [&](const char* field, auto& value) {
      if (name != field) return;
      from_text(text, value);
      known = true;
    };
    visit_fields(thing, assign);
    if (!known) throw std::runtime_error("no field is called \"" + name + "\"");
  }
  return thing;
}

}  // namespace

int Program::ranks() const {
  int sum = 0;
  for (const Process& process : processes) sum += process.devices;
  return sum;
}

int Program::process_of(int rank) const {
  int process = 0;
  while (rank >= processes[static_cast<std::size_t>(process)].devices) {
    rank -= processes[static_cast<std::size_t>(process++)].devices;
  }
  return process;
}

std::string Program::variable(const std::string& name, int process, const std::string& otherwise) const {
  std::string value = otherwise;
  for (const Variable& set : variables) {
    if (set.name == name && (set.process == -1 || set.process == process)) value = set.value;
  }
  return value;
}

std::string print(const Program& program) {
  std::string text = "seed " + std::to_string(program.seed) + "\n";
  text += std::string("driver ") + (program.threads ? "threads" : "groups") + "\n";
  for (const Process& process : program.processes) text += line("process", process);
  for (const Variable& variable : program.variables) text += line("variable", variable);
  for (const Weight& weight : program.weights) text += line("weight", weight);
  for (const Step& step : program.steps) {
    text += line("step", step);
    for (const Call& call : step.calls) text += line("  call", call);
  }
  return text;
}

Program parse(const std::string& text) {
  Program program;
  std::stringstream lines(text);
  for (std::string one; std::getline(lines, one);) {
    std::stringstream words(one);
    std::string word;
    if (!(words >> word) || word[0] == '#') continue;
    if (word == "seed") {
      words >> program.seed;
    } else if (word == "driver") {
      words >> word;
      program.threads = word == "threads";
    } else if (word == "process") {
      program.processes.push_back(read<Process>(words));
    } else if (word == "variable") {
      program.variables.push_back(read<Variable>(words));
    } else if (word == "weight") {
      program.weights.push_back(read<Weight>(words));
    } else if (word == "step") {
      program.steps.push_back(read<Step>(words));
    } else if (word == "call" && !program.steps.empty()) {
      program.steps.back().calls.push_back(read<Call>(words));
    } else {
      throw std::runtime_error("not understood: " + one);
    }
  }
  return program;
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

const char* name_of(ncclDataType_t type) {
  return find_name(type);
}

const char* name_of(Function function) {
  return find_name(function);
}

}  // namespace sdp4bit::model
