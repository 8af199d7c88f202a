// Comparisons; see results.h.
#include "results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace sdp4bit::model {
namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

Result::Result(const Program& program, const Plan& plan, const Trace& trace, const Execution& execution,
               const CommModel& comm, Fate fate)
    : program_(program),
      plan_(plan),
      trace_(trace),
      execution_(execution),
      call_(*execution.call),
      comm_(comm),
      fate_(fate),
      count_(shape_of(program, call_).first),
      type_(shape_of(program, call_).second),
      shard_bytes_(count_ * bytes_of(type_)) {}

void Result::wrong(int place, const std::string& text) const {
  throw Wrong("step " + std::to_string(execution_.step) + ", " + name_of(call_.function) + " of " +
              std::to_string(count_) + " " + name_of(type_) + " on communicator " +
              std::to_string(comm_.communicator.number) + ", expected " + name_of(fate_) + ", rank " +
              std::to_string(place) + ": " + text);
}

const Record& Result::record(int place) const {
  return *reinterpret_cast<const Record*>(trace_.records() +
                                          execution_.record[static_cast<std::size_t>(place)]);
}

const std::byte* Result::snapshot(int place) const {
  return reinterpret_cast<const std::byte*>(&record(place) + 1);
}

const std::byte* Result::slice(int place, int sender) const {
  return output(place) + static_cast<std::size_t>(sender) * shard_bytes_;
}

std::vector<std::byte> Result::bytes_of_shard(const Values& shard) const {
  std::vector<std::byte> bytes(shard_bytes_);
  store_all(type_, bytes.data(), shard);
  return bytes;
}

void Result::look_at_untouched() const {
  for (int place = 0; place < ranks(); ++place) {
    if (record(place).touched == 0) continue;
    wrong(place, "byte " + std::to_string(record(place).touched - 1) +
                     " of its buffers changed, the output begins at " +
                     std::to_string(record(place).output_offset));
  }
}

GradientBound Result::bound(const std::vector<Values>& inputs, int owner) const {
  switch (call_.function) {
    case Function::reduce_scatter:
      return fate_ == Fate::compressed ? compressed_bound(call_, comm_.settings, comm_.nodes, inputs, owner)
                                       : native_bound(call_, inputs, owner);
    case Function::all_reduce:
      return native_bound(call_, inputs, 0);
    default: {
      const int from =
          call_.function == Function::broadcast ? root_of(call_, ranks()) : (owner + ranks() - 1) % ranks();
      return moved_bound(inputs[static_cast<std::size_t>(from)]);
    }
  }
}

void Result::look_at_numbers() const {
  std::vector<Values> inputs;
  for (int place = 0; place < ranks(); ++place)
    inputs.push_back(input_of(call_, execution_.repeat, place, input_count(call_, ranks())));
  for (int owner = 0; count_ > 0 && owner < ranks(); ++owner) {
    const GradientBound bounds = bound(inputs, owner);
    const Values got = load_all(type_, output(owner), count_);
    for (std::size_t i = 0; i < count_; ++i) {
      const std::string where = "element " + std::to_string(i) + " is " + number(got[i]);
      if (std::isnan(got[i])) {
        if (bounds.expect[i] == Expect::number) wrong(owner, where + ", expected " + number(bounds.exact[i]));
        continue;
      }
      if (bounds.expect[i] == Expect::nan) wrong(owner, where + ", expected a NaN");
      if (bounds.expect[i] == Expect::either && std::isnan(bounds.exact[i])) continue;
      if (std::abs(got[i] - bounds.exact[i]) <= bounds.error[i]) continue;
      wrong(owner, where + ", expected " + number(bounds.exact[i]) + " within " + number(bounds.error[i]));
    }
    if (call_.function == Function::all_reduce && std::memcmp(output(owner), output(0), shard_bytes_) != 0)
      wrong(owner, "not the same bits as rank 0");
  }
}

Gather Result::gather() const {
  Gather gather;
  for (int place = 0; place < ranks(); ++place) {
    const Record& of_rank = record(place);
    const std::byte* const image = snapshot(place) + plan_.capacity(call_, member(place), place, ranks());
    const Values given = load_all(type_, image + of_rank.shard_offset, count_);
    gather.shards.push_back(given);
    gather.ranks.push_back({.address = of_rank.receive_address,
                            .in_place = is_in_place_on(program_, call_, member(place)),
                            .given = given,
                            .left = load_all(type_, slice(place, place), count_)});
  }
  return gather;
}

void Result::look_at_exact(const Gather& gather) const {
  for (int sender = 0; sender < ranks(); ++sender) {
    const auto from = static_cast<std::size_t>(sender);
    const std::vector<std::byte> expected = bytes_of_shard(gather.ranks[from].given);
    for (int place = 0; place < ranks(); ++place) {
      if (place != sender && !std::equal(expected.begin(), expected.end(), slice(place, sender)))
        wrong(place, "shard " + std::to_string(sender) + " is not what its owner gave");
    }
    if (!own_slice_is(sender, gather.shards[from])) wrong(sender, difference(sender, gather.shards[from]));
  }
}

std::string Result::difference(int sender, const Values& expected) const {
  const Values got = load_all(type_, slice(sender, sender), count_);
  std::size_t i = 0;
  while (i + 1 < got.size() && (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))))
    ++i;
  return "element " + std::to_string(i) + " of its own slice is " + number(got[i]) + ", expected " +
         number(expected[i]);
}

bool Result::own_slice_is_held(int sender) const {
  return std::memcmp(slice(sender, sender), slice(holder(sender), sender), shard_bytes_) == 0;
}

bool Result::own_slice_is(int sender, const Values& exact) const {
  const std::vector<std::byte> expected = bytes_of_shard(exact);
  return std::equal(expected.begin(), expected.end(), slice(sender, sender));
}

std::vector<Values> Result::held() const {
  std::vector<Values> results;
  for (int sender = 0; sender < ranks(); ++sender)
    results.push_back(load_all(type_, slice(holder(sender), sender), count_));
  return results;
}

void Result::look_at_coded(const Gather& gather, const std::vector<Values>& before,
                           const CodecSettings& codec, std::size_t group) const {
  for (int sender = 0; sender < ranks(); ++sender) {
    for (int place = 0; place < ranks(); ++place) {
      if (place == sender ||
          std::memcmp(slice(place, sender), slice(holder(sender), sender), shard_bytes_) == 0)
        continue;
      wrong(place, "shard " + std::to_string(sender) + " is not what rank " + std::to_string(holder(sender)) +
                       " has");
    }
    const auto from = static_cast<std::size_t>(sender);
    look_at_shard(sender, gather.shards[from], before[from], codec, group);
  }
}

/// Every element within what its group's codes may be off and half a distance of neighbours.
void Result::look_at_shard(int sender, const Values& shard, const Values& before, const CodecSettings& codec,
                           std::size_t group) const {
  const Values got = load_all(type_, slice(holder(sender), sender), count_);
  for (std::size_t first = 0; first < shard.size(); first += group) {
    const std::size_t end = std::min(first + group, shard.size());
    double largest = 0;
    bool bad = false;
    for (std::size_t i = first; i < end; ++i) {
      bad = bad || !std::isfinite(shard[i]);
      if (!bad) largest = std::max(largest, std::abs(shard[i] - before[i]));
    }
    const double off = largest * codec.largest_error() * (comm_.settings.bfloat16_scale ? 1 + 0x1p-7 : 1);
    for (std::size_t i = first; i < end; ++i) {
      const std::string where =
          "shard " + std::to_string(sender) + ", element " + std::to_string(i) + " is " + number(got[i]);
      if (bad && !std::isnan(got[i])) wrong(holder(sender), where + ", expected a NaN");
      if (bad) continue;
      const double size = std::abs(shard[i]) + std::abs(before[i]) + largest;
      const double error = off * (1 + 0x1p-16) + half_ulp(type_, std::abs(shard[i]) + off) + size * 0x1p-22;
      if (std::abs(got[i] - shard[i]) <= error) continue;
      wrong(holder(sender), where + ", expected " + number(shard[i]) + " within " + number(error) +
                                "; the ledger held " + number(before[i]));
    }
  }
}

}  // namespace sdp4bit::model
