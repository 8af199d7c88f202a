// What a program comes to: its communicators, what runs in which order, and where each result lies in the
// trace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "program.h"

namespace sdp4bit::model {

/// One communicator: a `create` makes one for each color.
struct Communicator {
  int number = 0;  // Step::target
  bool part = false;
  std::vector<int> members;  // rank of the job, by rank in the communicator
  std::string name = {};
  RankSet named = 0, nonblocking = 0;

  [[nodiscard]] int ranks() const { return static_cast<int>(members.size()); }
};

/// A call that runs: at once, or by a replay.
struct Execution {
  std::size_t step = 0;
  const Call* call = nullptr;
  std::uint64_t repeat = 0;  // which replay of the graph; 0: at once or the first
  std::size_t communicator = 0;
  std::vector<std::size_t> record;  // by rank in the communicator: offset in the trace
};

/// What a rank leaves of one execution. Behind it: the snapshot, then the image, `capacity` bytes each.
struct Record {
  std::uint64_t receive_address;
  std::uint64_t output_offset;  // of the output in the snapshot
  std::uint64_t shard_offset;   // AllGather: of what this rank gave, in the image
  std::uint64_t touched;        // 0, or 1 + the place of a byte that had to stay and did not
};

/// Offsets in the common memory of a call's buffers, unless it is an AllGather. All bytes around them are
/// canaries.
struct CallAreas {
  std::size_t send = 0, receive = 0, bytes = 0;
};
inline constexpr std::size_t kMargin = 256;  // canaries before and behind a buffer
inline constexpr int kMostShift = 8;         // elements of misalignment
/// Bytes that a buffer is off by: whole elements, and parts of one.
[[nodiscard]] std::size_t shift_of(std::uint64_t random, std::size_t element_bytes, bool elements,
                                   bool parts);

class Plan {
 public:
  /// Throws std::runtime_error where the program makes no sense (a shrunk one may).
  explicit Plan(const Program& program);

  std::vector<Communicator> communicators;
  std::vector<Execution> executions;  // in program order
  std::vector<std::vector<std::size_t>>
      of_step;  // executions of a step, call by call, communicator by communicator
  std::size_t trace_bytes = 0;

  [[nodiscard]] static CallAreas areas(const Call& call, int rank, int place, int ranks);
  /// Bytes of a snapshot.
  [[nodiscard]] std::size_t capacity(const Call& call, int rank, int place, int ranks) const;
  [[nodiscard]] std::size_t receive_bytes(const Weight& weight, int ranks) const;
  [[nodiscard]] std::size_t send_bytes(const Weight& weight) const;
  /// The index of a rank's communicator of that number, or -1.
  [[nodiscard]] int communicator_of(int number, int rank) const;

 private:
  void create(const Step& step);
  void execute(std::size_t step, const Call& call, std::uint64_t repeat);

  const Program& program_;
  std::vector<std::map<int, std::size_t>> alive_;  // by rank of the job: number -> index of the communicator
  std::set<int> numbers_, shrunk_;                 // communicators
};

[[nodiscard]] int place_of(const Communicator& communicator, int rank);
/// The number of the communicator that a call uses.
[[nodiscard]] int comm_of(const Program& program, const Call& call);
/// Of a broadcast.
[[nodiscard]] int root_of(const Call& call, int ranks);
/// Of an AllGather: where the own slice is the only copy it is gathered from there.
[[nodiscard]] bool is_in_place_on(const Program& program, const Call& call, int rank);
/// Elements that a rank gives, unless the call is an AllGather.
[[nodiscard]] std::size_t input_count(const Call& call, int ranks);
/// Of the rank at a place of the parent, in a `create`.
[[nodiscard]] int color_of(const Step& step, std::size_t place);

}  // namespace sdp4bit::model
