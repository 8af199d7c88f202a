// CUB's warp and block algorithms, each on data that the test can check with the standard library.
#include <cub/cub.cuh>

constexpr int kThreads = 128;
constexpr int kItems = 4;

template <cub::BlockReduceAlgorithm Algorithm>
__device__ void reduce_blocks(const int* from, int* to) {
  using Reduce = cub::BlockReduce<int, kThreads, Algorithm>;
  __shared__ typename Reduce::TempStorage storage;
  int items[kItems];
  cub::LoadDirectBlocked(threadIdx.x, from + blockIdx.x * kThreads * kItems, items);
  const int sum = Reduce(storage).Sum(items);
  __syncthreads();
  const int largest = Reduce(storage).Reduce(items[0], cuda::maximum<>{});
  __syncthreads();
  const int partial = Reduce(storage).Sum(items[1], 77);
  if (threadIdx.x == 0) {
    to[blockIdx.x * 3] = sum;
    to[blockIdx.x * 3 + 1] = largest;
    to[blockIdx.x * 3 + 2] = partial;
  }
}
extern "C" __global__ void block_reduce_raking(const int* from, int* to) {
  reduce_blocks<cub::BLOCK_REDUCE_RAKING>(from, to);
}
extern "C" __global__ void block_reduce_raking_commutative(const int* from, int* to) {
  reduce_blocks<cub::BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY>(from, to);
}
extern "C" __global__ void block_reduce_warps(const int* from, int* to) {
  reduce_blocks<cub::BLOCK_REDUCE_WARP_REDUCTIONS>(from, to);
}

template <cub::BlockScanAlgorithm Algorithm>
__device__ void scan_blocks(const int* from, int* to) {
  using Scan = cub::BlockScan<int, kThreads, Algorithm>;
  __shared__ typename Scan::TempStorage storage;
  int items[kItems], sums[kItems];
  const int base = blockIdx.x * kThreads * kItems;
  cub::LoadDirectBlocked(threadIdx.x, from + base, items);
  int total;
  Scan(storage).InclusiveSum(items, sums, total);
  cub::StoreDirectBlocked(threadIdx.x, to + base, sums);
  __syncthreads();
  Scan(storage).ExclusiveScan(items, sums, -1000000, cuda::maximum<>{});
  cub::StoreDirectBlocked(threadIdx.x, to + gridDim.x * kThreads * kItems + base, sums);
}
extern "C" __global__ void block_scan_raking(const int* from, int* to) {
  scan_blocks<cub::BLOCK_SCAN_RAKING>(from, to);
}
extern "C" __global__ void block_scan_memoize(const int* from, int* to) {
  scan_blocks<cub::BLOCK_SCAN_RAKING_MEMOIZE>(from, to);
}
extern "C" __global__ void block_scan_warps(const int* from, int* to) {
  scan_blocks<cub::BLOCK_SCAN_WARP_SCANS>(from, to);
}

extern "C" __global__ void block_radix_sort(unsigned* keys, float* floats, int* values) {
  using Sort = cub::BlockRadixSort<unsigned, kThreads, kItems, int>;
  using SortFloats = cub::BlockRadixSort<float, kThreads, kItems>;
  __shared__ union {
    typename Sort::TempStorage sort;
    typename SortFloats::TempStorage floats;
  } storage;
  const int base = blockIdx.x * kThreads * kItems;
  unsigned items[kItems];
  int ranks[kItems];
  cub::LoadDirectBlocked(threadIdx.x, keys + base, items);
  for (int at = 0; at < kItems; ++at) ranks[at] = threadIdx.x * kItems + at;
  Sort(storage.sort).Sort(items, ranks);
  cub::StoreDirectBlocked(threadIdx.x, keys + base, items);
  cub::StoreDirectBlocked(threadIdx.x, values + base, ranks);
  __syncthreads();
  float reals[kItems];
  cub::LoadDirectStriped<kThreads>(threadIdx.x, floats + base, reals);
  SortFloats(storage.floats).SortDescendingBlockedToStriped(reals);
  cub::StoreDirectStriped<kThreads>(threadIdx.x, floats + base, reals);
}

extern "C" __global__ void block_merge_sort(int* keys) {
  using Sort = cub::BlockMergeSort<int, kThreads, kItems>;
  __shared__ typename Sort::TempStorage storage;
  int items[kItems];
  cub::LoadDirectBlocked(threadIdx.x, keys + blockIdx.x * kThreads * kItems, items);
  Sort(storage).Sort(items, [](int a, int b) { return a < b; });
  cub::StoreDirectBlocked(threadIdx.x, keys + blockIdx.x * kThreads * kItems, items);
}

extern "C" __global__ void warp_merge_sort(int* keys) {
  using Sort = cub::WarpMergeSort<int, kItems, 32>;
  __shared__ typename Sort::TempStorage storage[kThreads / 32];
  int items[kItems];
  cub::LoadDirectBlocked(threadIdx.x, keys, items);
  Sort(storage[threadIdx.x / 32]).StableSort(items, [](int a, int b) { return a < b; });
  cub::StoreDirectBlocked(threadIdx.x, keys, items);
}

extern "C" __global__ void warp_reduce_and_scan(const int* from, int* to) {
  using Reduce = cub::WarpReduce<int>;
  using Reduce16 = cub::WarpReduce<float, 16>;
  using Scan = cub::WarpScan<int>;
  __shared__ union {
    typename Reduce::TempStorage reduce[kThreads / 32];
    typename Reduce16::TempStorage reduce16[kThreads / 16];
    typename Scan::TempStorage scan[kThreads / 32];
  } storage;
  const int value = from[threadIdx.x], warp = threadIdx.x / 32;
  int* out = to + threadIdx.x * 6;
  const int sum = Reduce(storage.reduce[warp]).Sum(value);
  out[0] = threadIdx.x % 32 == 0 ? sum : 0;
  __syncthreads();
  const int segment = Reduce(storage.reduce[warp]).HeadSegmentedSum(value, threadIdx.x % 5 == 0);
  out[1] = threadIdx.x % 32 % 5 == 0 || threadIdx.x % 5 == 0 ? segment : 0;
  __syncthreads();
  const float half =
      Reduce16(storage.reduce16[threadIdx.x / 16]).Reduce(static_cast<float>(value), cuda::maximum<>{});
  out[2] = threadIdx.x % 16 == 0 ? static_cast<int>(half) : 0;
  __syncthreads();
  int inclusive, exclusive, total;
  Scan(storage.scan[warp]).InclusiveSum(value, inclusive);
  __syncthreads();
  Scan(storage.scan[warp]).ExclusiveSum(value, exclusive, total);
  out[3] = inclusive;
  out[4] = exclusive;
  out[5] = total;
}

extern "C" __global__ void block_exchange(const int* from, int* to) {
  using Exchange = cub::BlockExchange<int, kThreads, kItems>;
  __shared__ typename Exchange::TempStorage storage;
  int items[kItems];
  cub::LoadDirectStriped<kThreads>(threadIdx.x, from, items);
  Exchange(storage).StripedToBlocked(items, items);
  for (int at = 0; at < kItems; ++at) items[at] += at;
  __syncthreads();
  Exchange(storage).BlockedToWarpStriped(items, items);
  cub::StoreDirectWarpStriped(threadIdx.x, to, items);
}

template <cub::BlockLoadAlgorithm Load, cub::BlockStoreAlgorithm Store>
__device__ void move_blocks(const int* from, int* to, int count) {
  using Loader = cub::BlockLoad<int, kThreads, kItems, Load>;
  using Storer = cub::BlockStore<int, kThreads, kItems, Store>;
  __shared__ union {
    typename Loader::TempStorage load;
    typename Storer::TempStorage store;
  } storage;
  const int base = blockIdx.x * kThreads * kItems;
  int items[kItems];
  if (count - base >= kThreads * kItems)
    Loader(storage.load).Load(from + base, items);
  else
    Loader(storage.load).Load(from + base, items, count - base, -5);
  __syncthreads();
  if (count - base >= kThreads * kItems)
    Storer(storage.store).Store(to + base, items);
  else
    Storer(storage.store).Store(to + base, items, count - base);
}
extern "C" __global__ void move_direct(const int* f, int* t, int n) {
  move_blocks<cub::BLOCK_LOAD_DIRECT, cub::BLOCK_STORE_DIRECT>(f, t, n);
}
extern "C" __global__ void move_striped(const int* f, int* t, int n) {
  move_blocks<cub::BLOCK_LOAD_STRIPED, cub::BLOCK_STORE_STRIPED>(f, t, n);
}
extern "C" __global__ void move_vectorized(const int* f, int* t, int n) {
  move_blocks<cub::BLOCK_LOAD_VECTORIZE, cub::BLOCK_STORE_VECTORIZE>(f, t, n);
}
extern "C" __global__ void move_transpose(const int* f, int* t, int n) {
  move_blocks<cub::BLOCK_LOAD_TRANSPOSE, cub::BLOCK_STORE_TRANSPOSE>(f, t, n);
}
extern "C" __global__ void move_warp_transpose(const int* f, int* t, int n) {
  move_blocks<cub::BLOCK_LOAD_WARP_TRANSPOSE, cub::BLOCK_STORE_WARP_TRANSPOSE>(f, t, n);
}
extern "C" __global__ void move_warp_transpose_timesliced(const int* f, int* t, int n) {
  move_blocks<cub::BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED, cub::BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED>(f, t, n);
}

template <cub::BlockHistogramAlgorithm Algorithm>
__device__ void count_block(const unsigned char* from, unsigned* bins) {
  using Histogram = cub::BlockHistogram<unsigned char, kThreads, kItems, 256, Algorithm>;
  __shared__ typename Histogram::TempStorage storage;
  __shared__ unsigned local[256];
  unsigned char items[kItems];
  cub::LoadDirectBlocked(threadIdx.x, from, items);
  Histogram(storage).Histogram(items, local);
  __syncthreads();
  for (int at = threadIdx.x; at < 256; at += kThreads) bins[at] = local[at];
}
extern "C" __global__ void block_histogram_sort(const unsigned char* f, unsigned* b) {
  count_block<cub::BLOCK_HISTO_SORT>(f, b);
}
extern "C" __global__ void block_histogram_atomic(const unsigned char* f, unsigned* b) {
  count_block<cub::BLOCK_HISTO_ATOMIC>(f, b);
}

extern "C" __global__ void block_discontinuity(const int* from, int* to) {
  using Flags = cub::BlockDiscontinuity<int, kThreads>;
  __shared__ typename Flags::TempStorage storage;
  int items[kItems], heads[kItems];
  cub::LoadDirectBlocked(threadIdx.x, from, items);
  Flags(storage).FlagHeads(heads, items, cuda::std::not_equal_to<>{});
  cub::StoreDirectBlocked(threadIdx.x, to, heads);
}

struct Extremes {
  float low, high;
  int count;
};
extern "C" __global__ void block_reduce_structures(const float* from, Extremes* to) {
  using Reduce = cub::BlockReduce<Extremes, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const float value = from[blockIdx.x * kThreads + threadIdx.x];
  const Extremes all = Reduce(storage).Reduce(Extremes{value, value, 1}, [](Extremes a, Extremes b) {
    return Extremes{fminf(a.low, b.low), fmaxf(a.high, b.high), a.count + b.count};
  });
  if (threadIdx.x == 0) to[blockIdx.x] = all;
}
