// Damage on request: one receive or one transfer between two ranks, nothing else.
#include "cluster.h"
#include "sandbox/nccl/extension.h"

namespace {

using cluster::Buffer;
using cluster::check;
using cluster::Rank;
using cluster::Stream;

constexpr size_t kBytes = 1000;

const std::vector<unsigned char> kSent(kBytes, 0x31);

std::vector<unsigned char> damaged_at(size_t offset) {
  std::vector<unsigned char> bytes(kBytes, 0x31);
  bytes[offset] ^= 0xff;
  return bytes;
}

}  // namespace

TEST_CASE("The chosen receive has its byte flipped, those before and behind it do not") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream stream;
    const Buffer data = Buffer::of(kSent);
    if (self.rank == 0) sandboxNcclDamageReceive(2, 17);
    for (int message = 1; message <= 3; ++message) {
      Buffer received(kBytes);
      if (self.rank == 0) {
        check(ncclRecv(received.data(), kBytes, ncclUint8, 1, self.comm, stream));
      } else {
        check(ncclSend(data.data(), kBytes, ncclUint8, 0, self.comm, stream));
      }
      stream.wait();
      if (self.rank == 0 && received.values<unsigned char>() != (message == 2 ? damaged_at(17) : kSent))
        throw std::runtime_error("message " + std::to_string(message));
      if (self.rank == 1 && data.values<unsigned char>() != kSent) throw std::runtime_error("what was sent");
    }
  });
}

TEST_CASE("A collective that moves data counts as one receive") {
  cluster::run_threads(1, [](const Rank& self) {
    const Stream stream;
    const Buffer data = Buffer::of(kSent);
    const Buffer gathered(kBytes), reduced(kBytes);
    sandboxNcclDamageReceive(1, 999);
    check(ncclAllReduce(data.data(), reduced.data(), kBytes, ncclUint8, ncclSum, self.comm, stream));
    check(ncclAllGather(data.data(), gathered.data(), kBytes, ncclUint8, self.comm, stream));
    stream.wait();
    CHECK(reduced.values<unsigned char>() == kSent);
    CHECK(gathered.values<unsigned char>() == damaged_at(999));
  });
}

TEST_CASE("The chosen transfer between two ranks is changed by the mask, and no other") {
  cluster::run_threads(3, [](const Rank& self) {
    const Stream stream;
    const unsigned char flip = 0x08;
    const Buffer data = Buffer::of(kSent);
    if (self.rank == 2) sandboxNcclDamageTransfer(self.comm, 1, 2, 2, 300, &flip, 1);
    for (int round = 1; round <= 3; ++round) {
      Buffer gathered(3 * kBytes);
      check(ncclAllGather(data.data(), gathered.data(), kBytes, ncclUint8, self.comm, stream));
      stream.wait();
      std::vector<unsigned char> expected(3 * kBytes, 0x31);
      if (self.rank == 2 && round == 2) expected[kBytes + 300] ^= flip;
      if (gathered.values<unsigned char>() != expected)
        throw std::runtime_error("rank " + std::to_string(self.rank) + ", round " + std::to_string(round));
    }
  });
  CHECK(sandboxNcclDamaged() > 0);
}

TEST_CASE("Transfers are noted with their ranks and sizes, and a mask beyond the end changes nothing there") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream stream;
    const Buffer data = Buffer::of(kSent);
    const std::vector<unsigned char> mask(8, 0xff);
    if (self.rank == 1) {
      sandboxNcclNoteTransfers(1);
      sandboxNcclDamageTransfer(self.comm, 0, 1, 1, kBytes - 1, mask.data(), mask.size());
      Buffer received(kBytes + 16);
      received.fill(0x31);
      check(ncclRecv(received.data(), kBytes, ncclUint8, 0, self.comm, stream));
      stream.wait();
      std::vector<unsigned char> expected(kBytes + 16, 0x31);
      expected[kBytes - 1] ^= 0xff;
      if (received.values<unsigned char>() != expected) throw std::runtime_error("what was received");
      sandboxNcclTransfer noted[4];
      const size_t count = sandboxNcclGetTransfers(noted, 4);
      sandboxNcclNoteTransfers(0);
      if (count != 1 || noted[0].sender != 0 || noted[0].receiver != 1 || noted[0].is_collective != 0 ||
          noted[0].bytes != kBytes) {
        throw std::runtime_error("what was noted");
      }
    } else {
      check(ncclSend(data.data(), kBytes, ncclUint8, 1, self.comm, stream));
      stream.wait();
    }
  });
}
