// Damage on request: one byte of one receive, nothing else.
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
