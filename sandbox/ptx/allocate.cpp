// Register allocation: liveness over the blocks of a function, then a linear scan that reuses places.
//
// Lanes are independent: each follows one path through the code and writes its own part of a register only,
// so liveness of a single thread's paths is enough however the warp has diverged.
#include <algorithm>
#include <limits>
#include <queue>

#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {
namespace {

using Bits = std::vector<std::uint64_t>;

struct Block {
  std::size_t begin = 0, end = 0;
  std::vector<std::size_t> next;
  Bits live_in, live_out, uses, defines;
};

bool test(const Bits& bits, std::size_t k) {
  return bits[k / 64] >> (k % 64) & 1;
}
void set(Bits& bits, std::size_t k) {
  bits[k / 64] |= std::uint64_t{1} << (k % 64);
}

bool ends_block(Op op) {
  return op == Op::bra || op == Op::brx || op == Op::ret || op == Op::exit || op == Op::trap;
}

/// Where an instruction may go besides to the next one.
void targets_of(const Pending& pending, std::size_t at, std::vector<std::size_t>& targets) {
  if (pending.instr.op == Op::bra) targets.push_back(at + static_cast<std::size_t>(pending.instr.imm));
  if (pending.instr.op == Op::brx)
    for (const auto distance : *reinterpret_cast<const std::vector<std::int64_t>*>(pending.instr.imm))
      targets.push_back(at + static_cast<std::size_t>(distance));
}

std::vector<Block> split(const std::vector<Pending>& code) {
  std::vector<bool> leader(code.size() + 1, false);
  leader[0] = true;
  std::vector<std::size_t> targets;
  for (std::size_t k = 0; k < code.size(); ++k) {
    targets.clear();
    targets_of(code[k], k, targets);
    for (const auto target : targets) leader[target] = true;
    if (ends_block(code[k].instr.op)) leader[k + 1] = true;
  }
  std::vector<Block> blocks;
  std::vector<std::size_t> block_at(code.size() + 1, 0);
  for (std::size_t k = 0; k < code.size(); ++k) {
    if (leader[k]) {
      if (!blocks.empty()) blocks.back().end = k;
      blocks.emplace_back();
      blocks.back().begin = k;
    }
    block_at[k] = blocks.size() - 1;
  }
  blocks.back().end = code.size();
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::size_t last = blocks[b].end - 1;
    targets.clear();
    targets_of(code[last], last, targets);
    for (const auto target : targets)
      if (target < code.size()) blocks[b].next.push_back(block_at[target]);
    const bool falls = !ends_block(code[last].instr.op) || code[last].guard >= 0;
    if (falls && blocks[b].end < code.size()) blocks[b].next.push_back(b + 1);
  }
  return blocks;
}

/// A guarded write keeps the other lanes' old values, which counts as reading them, but nobody wants a
/// temporary's.
bool is_read(const Pending& pending, int r, const std::vector<bool>& temporary) {
  if (!(pending.defines >> r & 1)) return true;
  return pending.guard >= 0 && !temporary[static_cast<std::size_t>(pending.v[r])];
}

void flow(std::vector<Block>& blocks, const std::vector<Pending>& code, const std::vector<bool>& temporary) {
  const std::size_t words = (temporary.size() + 63) / 64;
  for (Block& block : blocks) {
    block.live_in = block.live_out = block.uses = block.defines = Bits(words, 0);
    for (std::size_t k = block.begin; k < block.end; ++k) {
      const Pending& pending = code[k];
      const auto use = [&](int v) {
        if (v >= 0 && !test(block.defines, static_cast<std::size_t>(v)))
          set(block.uses, static_cast<std::size_t>(v));
      };
      use(pending.guard);
      for (int r = 0; r < 8; ++r)
        if (pending.v[r] >= 0 && is_read(pending, r, temporary)) use(pending.v[r]);
      for (int r = 0; r < 8; ++r)
        if (pending.v[r] >= 0 && !is_read(pending, r, temporary))
          set(block.defines, static_cast<std::size_t>(pending.v[r]));
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = blocks.size(); b-- > 0;) {
      Block& block = blocks[b];
      for (const auto next : block.next)
        for (std::size_t w = 0; w < words; ++w) block.live_out[w] |= blocks[next].live_in[w];
      for (std::size_t w = 0; w < words; ++w) {
        const std::uint64_t in = block.uses[w] | (block.live_out[w] & ~block.defines[w]);
        changed |= in != block.live_in[w];
        block.live_in[w] = in;
      }
    }
  }
}

struct Interval {
  std::size_t begin = std::numeric_limits<std::size_t>::max();
  std::size_t end = 0;
  std::uint32_t v = 0;

  void cover(std::size_t at) {
    begin = std::min(begin, at);
    end = std::max(end, at);
  }
};

std::vector<Interval> intervals_of(const std::vector<Block>& blocks, const std::vector<Pending>& code,
                                   const std::vector<bool>& temporary) {
  const std::size_t count = temporary.size();
  std::vector<Interval> intervals(count);
  for (std::size_t v = 0; v < count; ++v) intervals[v].v = static_cast<std::uint32_t>(v);
  for (const Block& block : blocks) {
    for (std::size_t w = 0; w < block.live_in.size(); ++w) {
      for (std::uint64_t left = block.live_in[w]; left != 0; left &= left - 1)
        intervals[w * 64 + static_cast<std::size_t>(__builtin_ctzll(left))].cover(2 * block.begin);
      for (std::uint64_t left = block.live_out[w]; left != 0; left &= left - 1)
        intervals[w * 64 + static_cast<std::size_t>(__builtin_ctzll(left))].cover(2 * block.end);
    }
    for (std::size_t k = block.begin; k < block.end; ++k) {
      // Operands are read before results are written: a result may take a dying operand's place.
      const Pending& pending = code[k];
      if (pending.guard >= 0) intervals[static_cast<std::size_t>(pending.guard)].cover(2 * k);
      for (int r = 0; r < 8; ++r) {
        if (pending.v[r] < 0) continue;
        Interval& interval = intervals[static_cast<std::size_t>(pending.v[r])];
        if (is_read(pending, r, temporary)) interval.cover(2 * k);
        if (pending.defines >> r & 1) interval.cover(2 * k + 1);
      }
    }
  }
  return intervals;
}

std::uint32_t bytes_of(RegisterClass kind) {
  constexpr std::uint32_t bytes[] = {4, 64, 128, 256, 512};
  return bytes[static_cast<int>(kind)];
}

std::uint32_t take_place(std::uint32_t& next, RegisterClass kind) {
  const std::uint32_t bytes = bytes_of(kind);
  const std::uint32_t align = std::min<std::uint32_t>(bytes, 64);
  next = (next + align - 1) / align * align;
  const std::uint32_t place = next;
  next += bytes;
  return place;
}

}  // namespace

void allocate_registers(std::vector<Pending>& code, const std::vector<RegisterClass>& classes,
                        const std::vector<bool>& pinned, const std::vector<bool>& temporary,
                        std::uint32_t& next_place, std::vector<std::uint32_t>& places) {
  auto blocks = split(code);
  flow(blocks, code, temporary);
  auto intervals = intervals_of(blocks, code, temporary);
  places.assign(classes.size(), 0);
  for (std::size_t v = 0; v < classes.size(); ++v)
    if (pinned[v]) places[v] = take_place(next_place, classes[v]);

  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  using Ending = std::pair<std::size_t, std::uint32_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::vector<std::uint32_t> free_places[5];
  for (const Interval& interval : intervals) {
    if (interval.begin == std::numeric_limits<std::size_t>::max() || pinned[interval.v]) continue;
    while (!active.empty() && active.top().first < interval.begin) {
      const auto v = active.top().second;
      free_places[static_cast<int>(classes[v])].push_back(places[v]);
      active.pop();
    }
    auto& free = free_places[static_cast<int>(classes[interval.v])];
    if (free.empty()) {
      places[interval.v] = take_place(next_place, classes[interval.v]);
    } else {
      places[interval.v] = free.back();
      free.pop_back();
    }
    active.emplace(interval.end, interval.v);
  }
  next_place = (next_place + 63) / 64 * 64;
}

}  // namespace sandbox::ptx
