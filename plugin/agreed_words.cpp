// Flags that count when all ranks show them, and those that count when any does.
#include "plugin/agreed_words.h"

namespace sdp4bit {

AgreedWords agreed_words(const CallWords& words) {
  return {.all_seen = (words.all_flags & kSeen) != 0,
          .all_small = (words.all_flags & kSmall) != 0,
          .all_ready = (words.all_flags & kReady) != 0,
          .any_refused = (words.any_flags & kRefused) != 0,
          .any_jump = (words.any_flags & kJump) != 0,
          .all_replica = (words.all_flags & kOwnReplica) != 0,
          .any_master = (words.any_flags & kOwnMaster) != 0,
          .all_reset = (words.all_flags & kReset) != 0,
          .max_slots = words.max_slots};
}

}  // namespace sdp4bit
