// Routes calls in processes with several copies of NCCL; with one there is nothing to choose.
//
// A communicator of one copy is no communicator of another, and each copy has its own groups. A communicator
// that we did not see made (it was made before we were loaded, or through a pointer from dlsym) is left to
// the copy that its user's calls reach without us. Trying it on other copies would read memory that is not
// theirs.
//
// The return address says who called, but for a wrapper whose last call is a jump: then it is the wrapper's
// caller. So it is asked only where nothing else decides.
#include "plugin/route.h"

#include "plugin/comm_state.h"
#include "plugin/error.h"
#include "plugin/group.h"

namespace sdp4bit {
namespace {

std::string describe(const RealNccl& nccl) {
  return "NCCL " + version_text(nccl.version) + " in " + nccl.path;
}

}  // namespace

const RealNccl& choose_nccl(const Caller& caller) {
  const RealNccl* const owner = caller.comm ? nccl_of(caller.comm) : nullptr;
  const RealNccl* const open = owner || caller.ends_group ? Group::open_one() : nullptr;
  if (owner && (!open || Group::is_open(*owner))) return *owner;
  if (caller.ends_group && open) return *open;
  const RealNccl& reached = nccl_reached_from(caller.address);
  if (!owner || owner == &reached || !Group::is_open(reached)) return owner ? *owner : reached;
  throw Error(ncclInvalidUsage, "a communicator made by " + describe(*owner) + " is used in a group of " +
                                    describe(reached) + ": one process has both, and they do not mix");
}

}  // namespace sdp4bit
