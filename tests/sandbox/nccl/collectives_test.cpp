// Every collective, type and operation against plain loops, with ranks as threads and as processes.
#include <cmath>
#include <cstring>

#include "cluster.h"

namespace {

using cluster::Buffer;
using cluster::check;
using cluster::Rank;
using cluster::Stream;

constexpr ncclDataType_t kTypes[] = {ncclInt8,    ncclUint8,    ncclInt32,      ncclUint32,
                                     ncclInt64,   ncclUint64,   ncclFloat16,    ncclFloat32,
                                     ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};
constexpr ncclRedOp_t kOps[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

bool is_integer(ncclDataType_t type) {
  return type <= ncclUint64;
}

// Small values only, so that every type holds them exactly. CUDA's own conversions, not the stand-in's.
void put(std::vector<std::byte>& bytes, size_t index, ncclDataType_t type, double value) {
  const auto store = [&](const auto& element) {
    std::memcpy(bytes.data() + index * sizeof element, &element, sizeof element);
  };
  switch (type) {
    case ncclInt8:
      return store(static_cast<int8_t>(value));
    case ncclUint8:
      return store(static_cast<uint8_t>(value));
    case ncclInt32:
      return store(static_cast<int32_t>(value));
    case ncclUint32:
      return store(static_cast<uint32_t>(value));
    case ncclInt64:
      return store(static_cast<int64_t>(value));
    case ncclUint64:
      return store(static_cast<uint64_t>(value));
    case ncclFloat16:
      return store(__float2half(static_cast<float>(value)));
    case ncclFloat32:
      return store(static_cast<float>(value));
    case ncclFloat64:
      return store(value);
    case ncclBfloat16:
      return store(__float2bfloat16(static_cast<float>(value)));
    case ncclFloat8e4m3:
      return store(__nv_fp8_e4m3(static_cast<float>(value)));
    case ncclFloat8e5m2:
      return store(__nv_fp8_e5m2(static_cast<float>(value)));
    default:
      return;
  }
}

// 0, 1 or 2 (1 or 2 for products): sums over up to 4 ranks and their quarters are exact in all types.
double input(int rank, size_t index, ncclRedOp_t op) {
  const size_t mixed = (index * 2654435761u + static_cast<size_t>(rank) * 40503u) >> 3;
  return op == ncclProd ? static_cast<double>(1 + mixed % 2) : static_cast<double>(mixed % 3);
}

double reduced(int ranks, size_t index, ncclRedOp_t op, ncclDataType_t type) {
  double result = input(0, index, op);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = input(rank, index, op);
    switch (op) {
      case ncclProd:
        result *= value;
        break;
      case ncclMax:
        result = std::max(result, value);
        break;
      case ncclMin:
        result = std::min(result, value);
        break;
      default:
        result += value;
    }
  }
  if (op != ncclAvg) return result;
  return is_integer(type) ? std::floor(result / ranks) : result / ranks;
}

std::vector<std::byte> inputs(int rank, size_t count, ncclDataType_t type, ncclRedOp_t op = ncclSum) {
  std::vector<std::byte> bytes(count * size_of(type));
  for (size_t i = 0; i < count; ++i) put(bytes, i, type, input(rank, i, op));
  return bytes;
}

std::vector<std::byte> slice(const std::vector<std::byte>& bytes, size_t first, size_t size) {
  return {bytes.begin() + static_cast<std::ptrdiff_t>(first),
          bytes.begin() + static_cast<std::ptrdiff_t>(first + size)};
}

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("wrong result: " + what);
}

std::string label(const char* name, ncclDataType_t type, size_t count) {
  return std::string(name) + " type " + std::to_string(type) + " count " + std::to_string(count);
}

void test_reductions(const Rank& self, ncclDataType_t type, ncclRedOp_t op, size_t count) {
  const Stream stream;
  const size_t ranks = static_cast<size_t>(self.ranks);
  const size_t bytes = count * size_of(type);
  std::vector<std::byte> all(ranks * bytes);
  for (size_t i = 0; i < ranks * count; ++i) put(all, i, type, reduced(self.ranks, i, op, type));
  const std::vector<std::byte> mine = inputs(self.rank, ranks * count, type, op);
  const size_t own = static_cast<size_t>(self.rank) * bytes;
  {
    const Buffer send = Buffer::of(mine);
    const Buffer receive(bytes);
    check(ncclReduceScatter(send.data(), receive.data(), count, type, op, self.comm, stream));
    stream.wait();
    expect(receive.values<std::byte>() == slice(all, own, bytes), label("ReduceScatter", type, count));
    expect(send.values<std::byte>() == mine, label("ReduceScatter's input", type, count));
    // In place: only the own slice changes.
    check(ncclReduceScatter(send.data(), send.data<char>() + own, count, type, op, self.comm, stream));
    stream.wait();
    std::vector<std::byte> expected = mine;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(own), bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(own));
    expect(send.values<std::byte>() == expected, label("ReduceScatter in place", type, count));
  }
  {
    const Buffer send = Buffer::of(mine);
    const Buffer receive(ranks * bytes);
    check(ncclAllReduce(send.data(), receive.data(), ranks * count, type, op, self.comm, stream));
    stream.wait();
    expect(receive.values<std::byte>() == all, label("AllReduce", type, count));
    check(ncclAllReduce(send.data(), send.data(), ranks * count, type, op, self.comm, stream));
    stream.wait();
    expect(send.values<std::byte>() == all, label("AllReduce in place", type, count));
  }
  {
    const int root = static_cast<int>(count) % self.ranks;
    const Buffer send = Buffer::of(mine);
    const Buffer receive(ranks * bytes);
    check(ncclReduce(send.data(), self.rank == root ? receive.data() : nullptr, ranks * count, type, op, root,
                     self.comm, stream));
    stream.wait();
    if (self.rank == root) expect(receive.values<std::byte>() == all, label("Reduce", type, count));
  }
}

void test_movements(const Rank& self, ncclDataType_t type, size_t count) {
  const Stream stream;
  const size_t ranks = static_cast<size_t>(self.ranks);
  const size_t bytes = count * size_of(type);
  const int root = static_cast<int>(count) % self.ranks;
  std::vector<std::byte> gathered;
  std::vector<std::byte> exchanged;
  for (int rank = 0; rank < self.ranks; ++rank) {
    const std::vector<std::byte> theirs = inputs(rank, ranks * count, type);
    const std::vector<std::byte> first = slice(theirs, 0, bytes);
    const std::vector<std::byte> for_me = slice(theirs, static_cast<size_t>(self.rank) * bytes, bytes);
    gathered.insert(gathered.end(), first.begin(), first.end());
    exchanged.insert(exchanged.end(), for_me.begin(), for_me.end());
  }
  const std::vector<std::byte> roots = inputs(root, ranks * count, type);
  const Buffer send = Buffer::of(inputs(self.rank, ranks * count, type));
  Buffer receive(ranks * bytes);
  const auto received = [&](size_t size) {
    stream.wait();
    return slice(receive.values<std::byte>(), 0, size);
  };
  receive.fill(0x55);
  check(ncclAllGather(send.data(), receive.data(), count, type, self.comm, stream));
  expect(received(ranks * bytes) == gathered, label("AllGather", type, count));
  const Buffer in_place = Buffer::of(inputs(self.rank, ranks * count, type));
  check(cudaMemcpy(in_place.data<char>() + static_cast<size_t>(self.rank) * bytes, send.data(), bytes,
                   cudaMemcpyDeviceToDevice));
  check(cudaStreamSynchronize(nullptr));
  check(ncclAllGather(in_place.data<char>() + static_cast<size_t>(self.rank) * bytes, in_place.data(), count,
                      type, self.comm, stream));
  stream.wait();
  expect(in_place.values<std::byte>() == gathered, label("AllGather in place", type, count));
  receive.fill(0x55);
  check(ncclBroadcast(send.data(), receive.data(), count, type, root, self.comm, stream));
  expect(received(bytes) == slice(roots, 0, bytes), label("Broadcast", type, count));
  receive.fill(0x55);
  check(ncclAlltoAll(send.data(), receive.data(), count, type, self.comm, stream));
  expect(received(ranks * bytes) == exchanged, label("AlltoAll", type, count));
  receive.fill(0x55);
  check(ncclGather(send.data(), receive.data(), count, type, root, self.comm, stream));
  if (self.rank == root) expect(received(ranks * bytes) == gathered, label("Gather", type, count));
  receive.fill(0x55);
  check(ncclScatter(send.data(), receive.data(), count, type, root, self.comm, stream));
  expect(received(bytes) == slice(roots, static_cast<size_t>(self.rank) * bytes, bytes),
         label("Scatter", type, count));
  const Buffer shared = Buffer::of(inputs(self.rank, count, type));
  check(ncclBcast(shared.data(), count, type, root, self.comm, stream));
  stream.wait();
  expect(shared.values<std::byte>() == inputs(root, count, type), label("Bcast", type, count));
}

void test_messages(const Rank& self, size_t count) {
  const Stream stream;
  const size_t ranks = static_cast<size_t>(self.ranks);
  std::vector<int> mine(ranks * 2 * count);
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = self.rank * 1000000 + static_cast<int>(i);
  const Buffer send = Buffer::of(mine);
  const Buffer receive(mine.size() * sizeof(int));
  // Two messages to everyone, oneself included: they match in order, the directions are free.
  check(ncclGroupStart());
  for (int peer = 0; peer < self.ranks; ++peer) {
    for (size_t part = 0; part < 2; ++part) {
      const size_t at = (static_cast<size_t>(peer) * 2 + part) * count;
      check(ncclRecv(receive.data<int>() + at, count, ncclInt32, peer, self.comm, stream));
      check(ncclSend(send.data<int>() + at, count, ncclInt32, peer, self.comm, stream));
    }
  }
  check(ncclGroupEnd());
  stream.wait();
  const std::vector<int> got = receive.values<int>();
  for (size_t peer = 0; peer < ranks; ++peer) {
    for (size_t i = 0; i < 2 * count; ++i) {
      const int expected =
          static_cast<int>(peer) * 1000000 + static_cast<int>(static_cast<size_t>(self.rank) * 2 * count + i);
      expect(got[peer * 2 * count + i] == expected, "message " + std::to_string(i));
    }
  }
}

void test_premul(const Rank& self) {
  const Stream stream;
  const size_t count = 1000;
  std::vector<float> mine(count);
  std::vector<float> expected(count);
  for (size_t i = 0; i < count; ++i) {
    mine[i] = static_cast<float>(self.rank + 1) * static_cast<float>(i);
    for (int rank = 0; rank < self.ranks; ++rank) {
      // Each rank scales by its own factor.
      expected[i] += static_cast<float>(rank + 1) * static_cast<float>(i) * static_cast<float>(rank + 2);
    }
  }
  const Buffer send = Buffer::of(mine);
  const Buffer receive(count * sizeof(float));
  float factor = static_cast<float>(self.rank + 2);
  const Buffer device_factor = Buffer::of(std::vector<float>{factor});
  for (const ncclScalarResidence_t residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
    ncclRedOp_t op;
    check(ncclRedOpCreatePreMulSum(&op, residence == ncclScalarDevice ? device_factor.data() : &factor,
                                   ncclFloat32, residence, self.comm));
    check(ncclGroupStart());
    check(ncclAllReduce(send.data(), receive.data(), count, ncclFloat32, op, self.comm, stream));
    check(ncclRedOpDestroy(op, self.comm));  // before the group ends, as PyTorch does
    check(ncclGroupEnd());
    stream.wait();
    expect(receive.values<float>() == expected, "PreMulSum");
    expect(ncclAllReduce(send.data(), receive.data(), count, ncclFloat32, op, self.comm, stream) ==
               ncclInvalidArgument,
           "a destroyed operation is refused");
  }
}

void test_everything(const Rank& self, bool thorough) {
  for (const ncclDataType_t type : kTypes) {
    for (const size_t count : {size_t{1}, size_t{1003}}) {
      for (const ncclRedOp_t op : kOps) {
        if (thorough || op == ncclSum || op == ncclAvg) test_reductions(self, type, op, count);
      }
      test_movements(self, type, count);
    }
  }
  // More than the rings between processes hold.
  test_reductions(self, ncclFloat32, ncclSum, 300007);
  test_movements(self, ncclBfloat16, 400009);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{257}, size_t{200003}}) test_messages(self, count);
  test_premul(self);
}

}  // namespace

TEST_CASE("Collectives give what plain loops give between threads") {
  const int ranks = GENERATE(1, 3, 4);
  // Averages over 3 are not exact: the values of the other operations are.
  cluster::run_threads(ranks, [&](const Rank& self) {
    if (ranks == 3) {
      test_movements(self, ncclFloat32, 129);
      test_reductions(self, ncclInt32, ncclAvg, 129);
      test_reductions(self, ncclFloat16, ncclSum, 129);
      test_premul(self);
    } else {
      test_everything(self, true);
    }
  });
}

TEST_CASE("worker: collectives", "[.worker]") {
  const Rank self = cluster::join_as_worker();
  test_everything(self, std::getenv("TEST_THOROUGH") != nullptr);
  check(ncclCommDestroy(self.comm));
}

TEST_CASE("Collectives give what plain loops give between processes") {
  const int ranks = GENERATE(2, 4);
  for (const cluster::Outcome& outcome : cluster::run_processes(ranks, "worker: collectives")) {
    INFO(outcome.output);
    CHECK(outcome.status == 0);
  }
}

TEST_CASE("One thread drives all devices of a process in groups") {
  ncclComm_t comms[4];
  check(ncclCommInitAll(comms, 4, nullptr));
  cudaStream_t streams[4];
  std::vector<Buffer> sends;
  std::vector<Buffer> receives;
  for (int device = 0; device < 4; ++device) {
    check(cudaSetDevice(device));
    check(cudaStreamCreate(&streams[device]));
    sends.push_back(Buffer::of(std::vector<int>(100, device + 1)));
    receives.emplace_back(100 * sizeof(int));
    int value = -1;
    check(ncclCommUserRank(comms[device], &value));
    CHECK(value == device);
    check(ncclCommCuDevice(comms[device], &value));
    CHECK(value == device);
    check(ncclCommCount(comms[device], &value));
    CHECK(value == 4);
  }
  check(ncclGroupStart());
  for (size_t device = 0; device < 4; ++device) {
    check(ncclAllReduce(sends[device].data(), receives[device].data(), 100, ncclInt32, ncclSum, comms[device],
                        streams[device]));
  }
  check(ncclGroupEnd());
  for (int device = 0; device < 4; ++device) {
    check(cudaSetDevice(device));
    check(cudaStreamSynchronize(streams[device]));
    CHECK(receives[static_cast<size_t>(device)].values<int>() == std::vector<int>(100, 10));
    check(cudaStreamDestroy(streams[device]));
    check(ncclCommDestroy(comms[device]));
  }
}
