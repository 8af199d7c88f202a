// Exchange inside a warp: shuffles, votes, matches, reductions, masks.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void shuffles(const int* from, int* to, int width, int amount) {
  const unsigned all = 0xffffffffu;
  const int value = from[threadIdx.x];
  int* out = to + threadIdx.x * 4;
  out[0] = __shfl_sync(all, value, amount, width);
  out[1] = __shfl_up_sync(all, value, amount, width);
  out[2] = __shfl_down_sync(all, value, amount, width);
  out[3] = __shfl_xor_sync(all, value, amount, width);
}

/// The predicate that shfl.sync gives: was the source lane in range?
extern "C" __global__ void shuffle_predicates(int* to, int clamp, int amount) {
  int up_value, up_valid, down_value, down_valid;
  const int value = threadIdx.x;
  asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %2, %3, 0, 0xffffffff; selp.b32 %1, 1, 0, p; }"
               : "=r"(up_value), "=r"(up_valid)
               : "r"(value), "r"(amount));
  asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %2, %3, %4, 0xffffffff; selp.b32 %1, 1, 0, p; }"
               : "=r"(down_value), "=r"(down_valid)
               : "r"(value), "r"(amount), "r"(clamp));
  to[threadIdx.x * 4] = up_value;
  to[threadIdx.x * 4 + 1] = up_valid;
  to[threadIdx.x * 4 + 2] = down_value;
  to[threadIdx.x * 4 + 3] = down_valid;
}

extern "C" __global__ void shuffle_wide(const double* from, double* to, const int* lanes) {
  to[threadIdx.x] = __shfl_sync(0xffffffffu, from[threadIdx.x], lanes[threadIdx.x]);
}

extern "C" __global__ void votes(const int* from, unsigned* to) {
  const unsigned all = 0xffffffffu;
  const int value = from[threadIdx.x];
  unsigned* out = to + threadIdx.x * 8;
  out[0] = __ballot_sync(all, value & 1);
  out[1] = __any_sync(all, value == 1000);
  out[2] = __all_sync(all, value < 500);
  out[3] = __match_any_sync(all, value % 5);
  int same;
  out[4] = __match_all_sync(all, value % 5, &same);
  out[4] += same != 0 ? 1 : 0;
  out[5] = __match_all_sync(all, value >= 0, &same);
  out[5] += same != 0 ? 1 : 0;
  out[6] = __match_any_sync(all, static_cast<unsigned long long>(value % 3) << 40);
  int uniform;
  asm volatile(
      "{ .reg .pred p, q; setp.lt.s32 p, %1, 500; vote.sync.uni.pred q, p, 0xffffffff; selp.b32 %0, 1, 0, q; "
      "}"
      : "=r"(uniform)
      : "r"(value));
  out[7] = uniform;
}

/// Masks that name only some lanes, different in each branch.
extern "C" __global__ void partial_masks(unsigned* to) {
  if (threadIdx.x % 4 == 0) {
    to[threadIdx.x] = __ballot_sync(0x11111111u, threadIdx.x > 10);
  } else {
    to[threadIdx.x] = __activemask() & 0x11111111u;
    const unsigned group = __match_any_sync(0xeeeeeeeeu, threadIdx.x % 4);
    to[threadIdx.x] += group;
  }
}

extern "C" __global__ void reductions(const int* from, int* to) {
  const unsigned all = 0xffffffffu;
  const int value = from[threadIdx.x];
  const unsigned bits = static_cast<unsigned>(value);
  int* out = to + threadIdx.x * 8;
  out[0] = __reduce_add_sync(all, value);
  out[1] = __reduce_min_sync(all, value);
  out[2] = __reduce_max_sync(all, value);
  out[3] = static_cast<int>(__reduce_min_sync(all, bits));
  out[4] = static_cast<int>(__reduce_max_sync(all, bits));
  out[5] = static_cast<int>(__reduce_and_sync(all, bits));
  out[6] = static_cast<int>(__reduce_or_sync(all, bits));
  out[7] = static_cast<int>(__reduce_xor_sync(all, bits));
}

extern "C" __global__ void masks(unsigned* to) {
  unsigned equal, less, less_equal, greater, greater_equal;
  asm("mov.u32 %0, %%lanemask_eq;" : "=r"(equal));
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(less));
  asm("mov.u32 %0, %%lanemask_le;" : "=r"(less_equal));
  asm("mov.u32 %0, %%lanemask_gt;" : "=r"(greater));
  asm("mov.u32 %0, %%lanemask_ge;" : "=r"(greater_equal));
  unsigned* out = to + threadIdx.x * 6;
  out[0] = equal;
  out[1] = less;
  out[2] = less_equal;
  out[3] = greater;
  out[4] = greater_equal;
  if (threadIdx.x % 3 == 1)
    out[5] = __activemask();
  else
    out[5] = 0;
}

extern "C" __global__ void tiles(const int* from, int* to) {
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<8>(block);
  const int value = from[block.thread_rank()];
  to[block.thread_rank() * 3] = cg::reduce(tile, value, cg::plus<int>());
  to[block.thread_rank() * 3 + 1] = tile.shfl_xor(value, 3);
  block.sync();
  const auto active = cg::coalesced_threads();
  int odd = 0;
  if (value % 2 != 0) {
    const auto odds = cg::coalesced_threads();
    odd = odds.thread_rank() * 100 + odds.size();
  }
  to[block.thread_rank() * 3 + 2] = odd + (active.size() == 32 ? 100000 : 0);
}

extern "C" __global__ void clocks(long long* to) {
  const long long start = clock64();
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  __nanosleep(1000);
  unsigned long long later;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(later));
  to[threadIdx.x * 2] = clock64() - start;
  to[threadIdx.x * 2 + 1] = static_cast<long long>(later - time);
}
