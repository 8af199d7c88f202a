// Runs the warps of one block: fragments by lowest place first, warps in turn, until the block ends or all
// spin.
#include "sandbox/ptx/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "sandbox/ptx/simd/tables.h"

namespace sandbox::ptx {
namespace {

const Instr* no_limit() {
  return stop_at() - 1;
}

/// Special registers that change from one block of a launch to the next.
bool differs_by_block(Special special) {
  return special == Special::ctaid_x || special == Special::ctaid_y || special == Special::ctaid_z ||
         special == Special::smid;
}

}  // namespace

void FreeMemory::operator()(std::uint8_t* memory) const {
  ::munmap(memory, bytes);
}

MappedMemory map_memory(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return MappedMemory(static_cast<std::uint8_t*>(memory), FreeMemory{bytes});
}

BlockRun::BlockRun(const LaunchContext& launch, unsigned thread_count)
    : context(&launch), threads(thread_count) {
  Program& program = *launch.program;
  const std::size_t warp_count = (threads + 31) / 32;
  // Functions called by pointer are lowered later and need registers too; untouched pages cost nothing.
  register_bytes =
      (program.register_bytes() + (program.may_grow() ? (std::size_t{4} << 20) : 0) + 127) / 128 * 128;
  registers_ = map_memory(register_bytes * warp_count);
  const std::uint64_t local_bytes = program.local_bytes();
  local_ = map_memory(local_bytes * 32 * warp_count);
  warps.resize(warp_count);
  for (std::size_t k = 0; k < warp_count; ++k) {
    Warp& warp = warps[k];
    warp.index = static_cast<std::uint32_t>(k);
    warp.block = this;
    warp.regs = registers_.get() + register_bytes * k;
    warp.local = local_.get() + local_bytes * 32 * k;
    warp.local_bytes = local_bytes;
    *reinterpret_cast<std::uint32_t*>(warp.regs + kTrueSlot) = kAllLanes;
    load_constants(warp, program.entry());
  }
}

void BlockRun::load_constants(Warp& warp, const Code& code) const {
  for (const ConstantInit& init : code.constants) {
    std::uint64_t bits = init.bits;
    if (init.variable)
      bits += init.variable->space == Space::shared ? context->program->dynamic_shared_offset()
                                                    : context->address_of(*init.variable);
    std::uint8_t* d = warp.regs + init.slot;
    switch (init.kind) {
      case RegisterClass::predicate:
        std::memcpy(d, &bits, 4);
        break;
      case RegisterClass::b16:
        std::fill_n(reinterpret_cast<std::uint16_t*>(d), 32, static_cast<std::uint16_t>(bits));
        break;
      case RegisterClass::b32:
        std::fill_n(reinterpret_cast<std::uint32_t*>(d), 32, static_cast<std::uint32_t>(bits));
        break;
      case RegisterClass::b64:
        std::fill_n(reinterpret_cast<std::uint64_t*>(d), 32, bits);
        break;
      case RegisterClass::b128:
        for (int l = 0; l < 32; ++l) {
          reinterpret_cast<std::uint64_t*>(d)[2 * l] = bits;
          reinterpret_cast<std::uint64_t*>(d)[2 * l + 1] = 0;
        }
        break;
    }
  }
}

void BlockRun::load_special(Warp& warp, const SpecialInit& init) const {
  auto* d = reinterpret_cast<std::uint32_t*>(warp.regs + init.slot);
  const Dim3 block = context->launch->block, grid = context->launch->grid;
  const auto each = [&](auto value) {
    for (std::uint32_t l = 0; l < 32; ++l) d[l] = value(l);
  };
  const auto all = [&](std::uint64_t value) { std::fill_n(d, 32, static_cast<std::uint32_t>(value)); };
  const std::uint32_t first = warp.index * 32;
  switch (init.special) {
    case Special::tid_x:
      each([&](std::uint32_t l) { return (first + l) % block.x; });
      break;
    case Special::tid_y:
      each([&](std::uint32_t l) { return (first + l) / block.x % block.y; });
      break;
    case Special::tid_z:
      each([&](std::uint32_t l) { return (first + l) / block.x / block.y; });
      break;
    case Special::ntid_x:
      all(block.x);
      break;
    case Special::ntid_y:
      all(block.y);
      break;
    case Special::ntid_z:
      all(block.z);
      break;
    case Special::ctaid_x:
      all(block_index.x);
      break;
    case Special::ctaid_y:
      all(block_index.y);
      break;
    case Special::ctaid_z:
      all(block_index.z);
      break;
    case Special::nctaid_x:
      all(grid.x);
      break;
    case Special::nctaid_y:
      all(grid.y);
      break;
    case Special::nctaid_z:
      all(grid.z);
      break;
    case Special::laneid:
      each([](std::uint32_t l) { return l; });
      break;
    case Special::warpid:
      all(warp.index);
      break;
    case Special::nwarpid:
      all(warps.size());
      break;
    case Special::smid:
      all((block_index.x + block_index.y * grid.x) % 132);
      break;
    case Special::nsmid:
      all(132);
      break;
    case Special::gridid:
      all(context->grid_id);
      break;
    case Special::lanemask_eq:
      each([](std::uint32_t l) { return 1u << l; });
      break;
    case Special::lanemask_le:
      each([](std::uint32_t l) { return (2u << l) - 1; });
      break;
    case Special::lanemask_lt:
      each([](std::uint32_t l) { return (1u << l) - 1; });
      break;
    case Special::lanemask_ge:
      each([](std::uint32_t l) { return ~((1u << l) - 1); });
      break;
    case Special::lanemask_gt:
      each([](std::uint32_t l) { return ~((2u << l) - 1); });
      break;
    case Special::dynamic_smem_size:
      all(context->launch->dynamic_shared_bytes);
      break;
    case Special::total_smem_size:
      all(warp.shared_bytes);
      break;
    case Special::grid_workspace_high:
      all(context->grid_workspace >> 32);
      break;
    case Special::grid_workspace_low:
      all(context->grid_workspace);
      break;
    case Special::zero:
      all(0);
      break;
    case Special::one:
      all(1);
      break;
  }
}

void BlockRun::prepare(Warp& warp, const Code& code) {
  if (std::find(warp.prepared.begin(), warp.prepared.end(), &code) != warp.prepared.end()) return;
  load_constants(warp, code);
  for (const SpecialInit& init : code.specials) load_special(warp, init);
  warp.prepared.push_back(&code);
}

void BlockRun::start(const LaunchContext& launch, std::uint64_t index) {
  context = &launch;
  const Dim3 grid = launch.launch->grid;
  block_index = {static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
                 static_cast<unsigned>(index / grid.x / grid.y)};
  Program& program = *launch.program;
  const std::size_t shared_bytes = program.dynamic_shared_offset() + launch.launch->dynamic_shared_bytes;
  if (shared_bytes > shared_capacity) {
    shared_ = map_memory((shared_bytes + 4095) / 4096 * 4096);
    shared_capacity = shared_bytes;
  }
  for (BarrierState& barrier : barriers) barrier.active = false;
  active_barriers = 0;
  const bool another_launch = specials_of_ != launch.grid_id;
  specials_of_ = launch.grid_id;
  const Code& entry = program.entry();
  for (Warp& warp : warps) {
    const unsigned lanes = std::min(32u, threads - warp.index * 32);
    warp.live = lanes == 32 ? kAllLanes : (1u << lanes) - 1;
    warp.shared = shared_.get();
    warp.shared_bytes = shared_bytes;
    warp.params = reinterpret_cast<const std::uint8_t*>(launch.launch->arguments.data());
    warp.param_bytes = launch.launch->arguments.size();
    warp.check = launch.check;
    warp.fenced = false;
    warp.turns = 0;
    warp.prepared.clear();
    for (const SpecialInit& init : entry.specials)
      if (another_launch || differs_by_block(init.special)) load_special(warp, init);
    warp.spare_frames.clear();
    for (auto& frame : warp.frames) warp.spare_frames.push_back(frame.get());
    if (warp.spare_frames.empty()) {
      warp.frames.push_back(std::make_unique<Frame>());
      warp.spare_frames.push_back(warp.frames.back().get());
    }
    Frame* frame = warp.spare_frames.back();
    warp.spare_frames.pop_back();
    *frame = Frame{};
    frame->code = &entry;
    frame->lanes = warp.live;
    warp.fragments.clear();
    Fragment fragment;
    fragment.ip = entry.instructions.data();
    fragment.frame = frame;
    fragment.mask = warp.live;
    warp.fragments.push_back(fragment);
  }
}

/// Takes the next fragment to run out of the list: those that have not spun first, then deeper calls, then
/// the lowest place in the code.
bool BlockRun::pick(Warp& warp, Fragment& chosen) {
  if (warp.fragments.size() == 1) {  // nobody to compare with or to wait for
    if (warp.fragments.front().state != Fragment::State::ready) return false;
    chosen = warp.fragments.front();
    warp.fragments.clear();
    return true;
  }
  std::size_t best = warp.fragments.size();
  for (std::size_t k = 0; k < warp.fragments.size(); ++k) {
    const Fragment& candidate = warp.fragments[k];
    if (candidate.state != Fragment::State::ready) continue;
    if (best == warp.fragments.size()) {
      best = k;
      continue;
    }
    const Fragment& leader = warp.fragments[best];
    if (candidate.turn != leader.turn                   ? candidate.turn < leader.turn
        : candidate.frame->depth != leader.frame->depth ? candidate.frame->depth > leader.frame->depth
                                                        : candidate.ip < leader.ip)
      best = k;
  }
  if (best == warp.fragments.size()) return false;
  chosen = warp.fragments[best];
  warp.fragments.erase(warp.fragments.begin() + static_cast<std::ptrdiff_t>(best));
  // Whoever is ready at the same place comes along.
  for (std::size_t k = warp.fragments.size(); k-- > 0;) {
    const Fragment& other = warp.fragments[k];
    if (other.state == Fragment::State::ready && other.ip == chosen.ip && other.frame == chosen.frame) {
      chosen.mask |= other.mask;
      warp.fragments.erase(warp.fragments.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  return true;
}

void BlockRun::put_back(Warp& warp, const Instr* ip) {
  if (warp.mask == 0) return;
  Fragment fragment;
  fragment.ip = ip;
  fragment.frame = warp.frame;
  fragment.mask = warp.mask;
  warp.fragments.push_back(fragment);
}

BlockRun::WarpStatus BlockRun::run_warp(Warp& warp) {
  const auto interpret = simd_build().interpret;
  warp.spins = 0;
  warp.fuel = kFuel;
  Fragment fragment;
  while (pick(warp, fragment)) {
    warp.mask = fragment.mask;
    warp.frame = fragment.frame;
    warp.local_base = fragment.frame->local_base;
    warp.segment = warp.current = fragment.ip;
    warp.limit = no_limit();
    for (const Fragment& other : warp.fragments)
      if (other.frame == fragment.frame && other.ip > fragment.ip && other.ip < warp.limit)
        warp.limit = other.ip;
    warp.stop = Stop::none;
    const Instr* reached = interpret(warp, fragment.ip);
    const Stop why = warp.stop;
    if (why != Stop::none) reached = warp.resume;
    if (why == Stop::none || why == Stop::yield || why == Stop::warp_sync) count_segment(warp, reached);
    put_back(warp, reached);
    switch (why) {
      case Stop::warp_sync:
        warp.fragments.back().state = Fragment::State::warp_sync;
        warp.fragments.back().needs = warp.needs;
        break;
      case Stop::yield:
        if (warp.mask != 0 && warp.fragments.size() > 1) warp.fragments.back().turn = ++warp.turns;
        return WarpStatus::yielded;
      case Stop::pause:
        return WarpStatus::paused;
      default:
        break;
    }
  }
  return WarpStatus::blocked;
}

BlockRun::Status BlockRun::run() {
  for (unsigned rounds = 0;; ++rounds) {
    bool alive = false, ran = false, all_spin = true;
    for (Warp& warp : warps) {
      if (warp.live == 0) continue;
      const bool ready = std::any_of(warp.fragments.begin(), warp.fragments.end(),
                                     [](const Fragment& f) { return f.state == Fragment::State::ready; });
      if (ready) {
        ran = true;
        WarpStatus status;
        try {
          status = run_warp(warp);
        } catch (const LaneFault& fault) {
          report(warp, fault);
        }
        if (status != WarpStatus::yielded) all_spin = false;
        if (status == WarpStatus::paused) check_clock(warp);
      }
      alive |= warp.live != 0;
    }
    if (!alive) return Status::finished;
    // A warp may have become ready behind the point where it was looked at.
    const bool ready = std::any_of(warps.begin(), warps.end(), [](const Warp& warp) {
      return std::any_of(warp.fragments.begin(), warp.fragments.end(),
                         [](const Fragment& f) { return f.state == Fragment::State::ready; });
    });
    if (!ran && !ready) report_deadlock();
    if (ran && all_spin) {
      check_clock(warps[0]);
      return Status::yielded;
    }
  }
}

void BlockRun::check_clock(const Warp& warp) const {
  const Launch& launch = *context->launch;
  if (launch.cancel && launch.cancel->load(std::memory_order_relaxed))
    throw Fault{FaultKind::timeout, context->kernel_name + " was cancelled"};
  if (context->deadline <= 0) return;
  const double now =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (now < context->deadline) return;
  const Instr* at = warp.fragments.empty() ? warp.current : warp.fragments.front().ip;
  throw Fault{FaultKind::timeout, "SANDBOX_KERNEL_TIMEOUT is over: " + describe_place(*this, warp, 0, at)};
}

void BlockRun::collect(WarpCounters& total) {
  for (Warp& warp : warps) {
    total.lane_instructions += warp.counters.lane_instructions;
    total.global_bytes_loaded += warp.counters.global_bytes_loaded;
    total.global_bytes_stored += warp.counters.global_bytes_stored;
    total.global_requests += warp.counters.global_requests;
    total.global_sectors += warp.counters.global_sectors;
    warp.counters = {};
  }
}

}  // namespace sandbox::ptx
