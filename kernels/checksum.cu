// Seals messages with checksums, and verifies those that arrive.
#include "kernels/checksum.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/host_word.cuh"
#include "kernels/launch_checksum.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/memory.cuh"

namespace sdp4bit {
namespace {

constexpr unsigned kWarp = 32;

/// 16 bytes from any address; what lies behind the end reads as zero.
__device__ __forceinline__ void load_piece(std::uint32_t (&words)[4], const std::byte* address,
                                           std::size_t left) {
  if (left >= kChecksumPiece && is_aligned(address, kChecksumPiece)) {
    load_words(words, address);
  } else if (is_aligned(address, 4)) {
    load_guarded<4>(words, address, static_cast<unsigned>(min(left, kChecksumPiece)));
  } else if (is_aligned(address, 2)) {
    load_guarded<2>(words, address, static_cast<unsigned>(min(left, kChecksumPiece)));
  } else {
    load_guarded<1>(words, address, static_cast<unsigned>(min(left, kChecksumPiece)));
  }
}

/// What this thread's pieces add.
__device__ __forceinline__ std::uint64_t sum_of_thread(const ChecksummedParts& parts, const std::byte* data) {
  const std::size_t first = std::size_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  const std::size_t pieces = (parts.bytes + kChecksumPiece - 1) / kChecksumPiece;
  const std::size_t whole = is_aligned(data, kChecksumPiece) ? parts.bytes / kChecksumPiece : 0;
  std::uint64_t place =
      (2 * first + 1) * kChecksumStep;  // of the piece's first word, as checksum_term() has it
  std::uint64_t sum = 0;
  std::size_t piece = first;
  const auto add = [&](const std::uint32_t(&words)[4]) {
    sum += mixed((std::uint64_t{words[1]} << 32 | words[0]) + place);
    sum += mixed((std::uint64_t{words[3]} << 32 | words[2]) + (place + kChecksumStep));
    place += 2 * stride * kChecksumStep;
  };
#pragma unroll 4
  for (; piece < whole; piece += stride) {
    std::uint32_t words[4];
    load_words(words, data + piece * kChecksumPiece);
    add(words);
  }
  for (; piece < pieces; piece += stride) {
    std::uint32_t words[4];
    load_piece(words, data + piece * kChecksumPiece, parts.bytes - piece * kChecksumPiece);
    add(words);
  }
  return sum;
}

/// What makes the word that holds the checksum count as zero.
__device__ __forceinline__ std::uint64_t without_hole(const ChecksummedParts& parts, const std::byte* data) {
  if (!parts.is_inside || blockIdx.x != 0 || threadIdx.x != 0) return 0;
  const std::size_t word = parts.checksum_offset / sizeof(std::uint64_t);
  return checksum_term(0, word) - checksum_term(reinterpret_cast<const std::uint64_t*>(data)[word], word);
}

/// The sum over the thread block, in thread 0.
__device__ __forceinline__ std::uint64_t sum_over_block(std::uint64_t sum) {
  __shared__ std::uint64_t of_warp[kThreads / kWarp];
  for (unsigned distance = kWarp / 2; distance != 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  }
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return 0;
  sum = 0;
  for (const std::uint64_t part : of_warp) sum += part;
  return sum;
}

/// By thread 0: true for the last block of a part, with the sum over all blocks.
__device__ __forceinline__ bool is_last_block(std::uint64_t& sum, ChecksumSum& shared) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  if (gridDim.x == 1) return true;
  auto* const total = reinterpret_cast<unsigned long long*>(&shared.sum);
  atomicAdd(total, sum);
  __threadfence();
  if (atomicAdd(&shared.blocks_done, 1u) + 1 != gridDim.x) return false;
  __threadfence();
  sum = atomicExch(total, 0ull);
  shared.blocks_done = 0;
  return true;
}

/// One part's way, for the whole block: true in the one thread that knows its sum.
__device__ __forceinline__ bool sum_part(std::uint64_t& sum, const ChecksummedParts& parts,
                                         std::uint32_t place, ChecksumSum* sums) {
  const std::byte* const data = parts.data + place * parts.stride;
  sum = sum_over_block(sum_of_thread(parts, data) + without_hole(parts, data));
  return threadIdx.x == 0 && is_last_block(sum, sums[blockIdx.y]);
}

__device__ __forceinline__ std::uint64_t& checksum_in(const ChecksummedParts& parts, std::uint32_t place) {
  return *reinterpret_cast<std::uint64_t*>(parts.headers + place * parts.header_stride +
                                           parts.checksum_offset);
}

/// Grid: pieces of a part (strided), parts.
__global__ void __launch_bounds__(kThreads) seal_kernel(const ChecksummedParts parts, ChecksumSum* sums) {
  const std::uint32_t place = parts.places ? parts.places[blockIdx.y] : blockIdx.y;
  std::uint64_t sum;
  if (sum_part(sum, parts, place, sums)) checksum_in(parts, place) = sum;
}

__device__ __forceinline__ void count(std::uint64_t& counter) {
  atomicAdd(reinterpret_cast<unsigned long long*>(&counter), 1ull);
}

__device__ __forceinline__ std::uint64_t call_of(const VerifyChecksumsArgs& args) {
  return args.call + (args.call_counter ? *args.call_counter : 0);
}

/// Tells the host, if it is the communicator's first damage, and counts it.
__device__ void report(const VerifyChecksumsArgs& args, std::uint32_t exchange, std::uint32_t part) {
  atomicExch(&args.state->found, 1u);
  count(args.counts->failed);
  if (atomicExch(&args.state->reported, 1u) != 0) return;
  show_host(args.failure->exchange, exchange);
  show_host(args.failure->part, part);
  show_host(args.failure->chunk, args.chunk);
  show_host(args.failure->call, call_of(args));
  show_host(args.failure->class_number, args.class_number);
  publish_to_host(args.failure->found, 1u);
  publish_to_host(*args.error, 1u);
}

__device__ __forceinline__ MessageHeader* headers_of(const VerifyChecksumsArgs& args, std::uint32_t place) {
  return reinterpret_cast<MessageHeader*>(args.parts.headers + place * args.parts.header_stride);
}

/// By the one thread that knows a part's sum.
__device__ __forceinline__ void judge(const VerifyChecksumsArgs& args, std::uint32_t place,
                                      std::uint64_t sum) {
  MessageHeader* const headers = headers_of(args, place);
  const bool fits = sum == checksum_in(args.parts, place);
  if (!fits) {
    report(args, args.exchange, place);
  } else {
    count(args.counts->verified);
    for (std::uint32_t i = 0; args.passed_on != 0 && i < args.headers_per_part; ++i) {
      if (headers[i].magic == kDamagedMagic)
        report(args, args.passed_on, blockIdx.y * args.headers_per_part + i);
    }
  }
  const ChecksumState& state = *args.state;
  const bool failed_before =
      state.failed != 0 && (state.failed_use != args.use || state.failed_call != call_of(args));
  if (fits && !failed_before) return;
  for (std::uint32_t i = 0; i < args.headers_per_part; ++i) headers[i].magic = kDamagedMagic;
}

/// Grid: pieces of a part (strided), parts.
__global__ void __launch_bounds__(kThreads) verify_kernel(const VerifyChecksumsArgs args) {
  const std::uint32_t place = args.parts.places ? args.parts.places[blockIdx.y] : blockIdx.y;
  // Nobody writes these flags while the kernel runs.
  const bool is_judged = args.flags == 0 || (headers_of(args, place)->flags & args.flags) == args.flags;
  std::uint64_t sum = 0;
  if (is_judged) {
    if (!sum_part(sum, args.parts, place, args.sums)) return;
    judge(args, place, sum);
  } else if (threadIdx.x != 0 || blockIdx.x != 0) {
    return;
  }
  // The last part of the launch closes it.
  __threadfence();
  if (atomicAdd(&args.state->parts_done, 1u) + 1 != args.parts.count) return;
  __threadfence();
  show_host(args.host_counts->verified, *const_cast<const volatile std::uint64_t*>(&args.counts->verified));
  show_host(args.host_counts->failed, *const_cast<const volatile std::uint64_t*>(&args.counts->failed));
  ChecksumState& state = *args.state;
  state.parts_done = 0;
  if (atomicExch(&state.found, 0u) == 0 || state.failed != 0) return;
  state.failed_use = args.use;
  state.failed_call = call_of(args);
  state.failed = 1;
}

/// Grid: tiles of a shard (strided), senders.
template <typename T>
__global__ void __launch_bounds__(kThreads) fill_damaged_kernel(const FillDamagedArgs args) {
  const std::uint32_t sender = args.senders[blockIdx.y];
  if (reinterpret_cast<const MessageHeader*>(args.records)[sender].magic != kDamagedMagic) return;
  T* const shard = static_cast<T*>(args.receive) + sender * args.count;
  constexpr std::uint32_t kNanWord = sizeof(T) == 4 ? kNanBits : std::uint32_t{kNanBits16} << 16 | kNanBits16;
  std::uint32_t words[kBlockWords<T>];
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlockWords<T>; ++i) words[i] = kNanWord;
  const std::size_t tiles = tile_count(args.count);
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    const unsigned size = block_size(begin, args.count);
    if (size != 0) store_block_words(shard + begin, words, size);
  }
}

/// Enough thread blocks to fill a device, each with several pieces a thread; false where there are too many
/// parts.
bool make_checksum_grid(dim3& grid, const ChecksummedParts& parts) {
  constexpr std::size_t kBytesOfBlock = kThreads * kChecksumPiece * 8;
  constexpr std::size_t kMostBlocks = 2048;
  if (parts.count > kLargestGridYZ) return false;
  const std::size_t blocks = (parts.bytes + kBytesOfBlock - 1) / kBytesOfBlock;
  grid = dim3(static_cast<unsigned>(std::clamp<std::size_t>(blocks, 1, kMostBlocks)), parts.count);
  return true;
}

}  // namespace

cudaError_t seal_checksums(const ChecksummedParts& parts, ChecksumSum* sums, cudaStream_t stream) {
  dim3 grid;
  if (parts.count == 0) return cudaSuccess;
  if (!make_checksum_grid(grid, parts)) return cudaErrorInvalidValue;
  return launch_kernel(seal_kernel, grid, kThreads, 0, stream, parts, sums);
}

cudaError_t verify_checksums(const VerifyChecksumsArgs& args, cudaStream_t stream) {
  dim3 grid;
  if (args.parts.count == 0) return cudaSuccess;
  if (!make_checksum_grid(grid, args.parts)) return cudaErrorInvalidValue;
  return launch_kernel(verify_kernel, grid, kThreads, 0, stream, args);
}

cudaError_t fill_damaged(const FillDamagedArgs& args, cudaStream_t stream) {
  dim3 grid;
  if (args.sender_count == 0 || args.count == 0) return cudaSuccess;
  if (!make_grid(grid, args.count, args.sender_count)) return cudaErrorInvalidValue;
  return with_type(args.type, [&]<typename T>() {
    return launch_kernel(fill_damaged_kernel<T>, grid, kThreads, 0, stream, args);
  });
}

cudaError_t load_checksum() {
  KernelLoader loader;
  loader.load(seal_kernel);
  loader.load(verify_kernel);
  for_each_type([&]<typename T>() { loader.load(fill_damaged_kernel<T>); });
  return loader.error();
}

}  // namespace sdp4bit
