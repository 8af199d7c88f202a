// Any words of any rank in the handshake: every rank comes to the same verdict, with a reason where it is
// "off".
#include "plugin/handshake.h"

#include "tests/fuzz/input.h"

using namespace sdp4bit;

namespace {

/// A record that differs from a right one in the bytes that the input names.
HandshakeRecord damaged(fuzz::Input& input, std::int64_t job_rank) {
  constexpr std::uint32_t all_well = HandshakeRecord::enabled | HandshakeRecord::selected |
                                     HandshakeRecord::blocking | HandshakeRecord::workspace_ready;
  HandshakeRecord record = make_record(Config{}, all_well, job_rank);
  record.host_hash = static_cast<std::uint64_t>(job_rank) / 2;
  for (auto left = input.take<std::uint8_t>() % 8; left > 0; --left) {
    const std::size_t place = input.take<std::uint16_t>() % sizeof record;
    reinterpret_cast<std::uint8_t*>(&record)[place] = input.take<std::uint8_t>();
  }
  return record;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t ranks = 2 + input.take<std::uint8_t>() % 7;
  const std::uint32_t local_size = input.take<std::uint8_t>() % 4;
  std::vector<HandshakeRecord> records;
  std::vector<std::uint64_t> hosts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    records.push_back(damaged(input, static_cast<std::int64_t>(rank)));
    hosts.push_back(records.back().host_hash);
  }
  const Verdict first = judge(records, make_topology(hosts, 0, local_size), Config{});
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    const Verdict other = judge(records, make_topology(hosts, rank, local_size), Config{});
    fuzz::require(first.agreement == other.agreement && first.reason == other.reason &&
                      first.abort == other.abort && first.gradients_native == other.gradients_native &&
                      first.job_ranks_differ == other.job_ranks_differ && first.checks == other.checks,
                  "all ranks agree");
  }
  fuzz::require(first.agreement != Agreement::off || !first.reason.empty(), "\"off\" has a reason");
  for (const char character : first.reason) {
    fuzz::require(static_cast<unsigned char>(character) >= ' ', "a reason is one line of text");
  }
  return 0;
}
