// Unique ids and the meeting of a parent's ranks.
#include "sandbox/nccl/bootstrap.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/settings.h"

namespace sandbox::nccl {
namespace {

constexpr char kMagic[8] = {'s', 'a', 'n', 'd', 'n', 'c', 'c', 'l'};

struct IdImage {
  char magic[8];
  SegmentAddress address;
};
static_assert(sizeof(IdImage) <= NCCL_UNIQUE_ID_BYTES);

// Steps of one round; a rank's split_stage is round * kSteps + step.
enum Step : uint64_t { kOffered = 1, kPlaced = 2, kDone = 3 };
constexpr uint64_t kSteps = 3;

// Waits until `rank` reached a stage. The parent may be in error: a shrink is how a program goes on after
// one.
void wait_for_stage(Communicator& parent, int rank, uint64_t stage) {
  Endpoint& endpoint = parent.endpoint();
  Segment& segment = endpoint.segment();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(settings().init_timeout);
  while (true) {
    const uint32_t bell = endpoint.record().bell.load(std::memory_order_seq_cst);
    if (segment.rank(rank).split_stage.load(std::memory_order_acquire) >= stage) return;
    require(std::chrono::steady_clock::now() < end && segment.alive(rank), ncclRemoteError,
            endpoint.label() + text(": the split or shrink was never met by rank %d", rank));
    sleep_until_bell(endpoint.record(), bell, 5);
  }
}

void reach(Communicator& parent, uint64_t stage) {
  parent.endpoint().record().split_stage.store(stage, std::memory_order_release);
  parent.endpoint().segment().wake_all();
}

}  // namespace

ncclUniqueId new_unique_id() {
  ncclUniqueId id{};
  IdImage image{};
  std::memcpy(image.magic, kMagic, sizeof kMagic);
  image.address = Segment::create();
  std::memcpy(id.internal, &image, sizeof image);
  return id;
}

SegmentAddress address_of(const ncclUniqueId& id) {
  IdImage image;
  std::memcpy(&image, id.internal, sizeof image);
  require(std::memcmp(image.magic, kMagic, sizeof kMagic) == 0, ncclInvalidArgument,
          "not an id of ncclGetUniqueId");
  return image.address;
}

SegmentAddress meet_to_grow(Communicator& parent, uint64_t round, const SegmentAddress* address) {
  Segment& segment = parent.endpoint().segment();
  const int me = parent.rank();
  const uint64_t base = round * kSteps;
  wait_for_stage(parent, me, base);
  SplitOffer& mine = segment.rank(me).split_offer;
  mine = SplitOffer{NCCL_SPLIT_NOCOLOR, 0, 0, -1, 0};
  if (address != nullptr) mine = SplitOffer{0, 0, address->process, address->descriptor, address->token};
  reach(parent, base + kOffered);
  std::vector<SegmentAddress> given;
  for (int rank = 0; rank < parent.ranks(); ++rank) {
    wait_for_stage(parent, rank, base + kOffered);
    const SplitOffer& offer = segment.rank(rank).split_offer;
    if (offer.color == 0)
      given.push_back({offer.segment_process, offer.segment_descriptor, offer.segment_token});
  }
  reach(parent, base + kPlaced);
  reach(parent, base + kDone);
  for (int rank = 0; rank < parent.ranks(); ++rank) wait_for_stage(parent, rank, base + kDone);
  require(given.size() == 1, ncclInvalidUsage,
          parent.endpoint().label() +
              text(": %zu of its ranks gave an id to grow by instead of one", given.size()));
  return given.front();
}

Place meet(Communicator& parent, uint64_t round, const std::vector<int>& participants, int color, int key) {
  Segment& segment = parent.endpoint().segment();
  const int me = parent.rank();
  const uint64_t base = round * kSteps;
  wait_for_stage(parent, me, base);  // an earlier round of this rank may still run on another thread
  segment.rank(me).split_offer = SplitOffer{color, key, 0, -1, 0};
  reach(parent, base + kOffered);
  std::vector<int> members;
  for (const int rank : participants) {
    wait_for_stage(parent, rank, base + kOffered);
    if (segment.rank(rank).split_offer.color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return segment.rank(a).split_offer.key < segment.rank(b).split_offer.key;
  });
  Place place;
  const bool takes_part = color != NCCL_SPLIT_NOCOLOR;
  // The first member makes the segment; nobody reads its offer's address before kPlaced.
  if (takes_part && members.front() == me) {
    const SegmentAddress address = Segment::create();
    SplitOffer& offer = segment.rank(me).split_offer;
    offer.segment_process = address.process;
    offer.segment_descriptor = address.descriptor;
    offer.segment_token = address.token;
  }
  reach(parent, base + kPlaced);
  if (takes_part) {
    wait_for_stage(parent, members.front(), base + kPlaced);
    const SplitOffer& offer = segment.rank(members.front()).split_offer;
    place.address = {offer.segment_process, offer.segment_descriptor, offer.segment_token};
    place.ranks = static_cast<int>(members.size());
    place.rank = static_cast<int>(std::find(members.begin(), members.end(), me) - members.begin());
  }
  reach(parent, base + kDone);
  // Offers are used again in the next round only after everyone read this one's.
  for (const int rank : participants) wait_for_stage(parent, rank, base + kDone);
  return place;
}

}  // namespace sandbox::nccl
