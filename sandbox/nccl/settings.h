// What the environment asks of the stand-in; read once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nccl.h>

namespace sandbox::nccl {

// One planned misbehaviour, see parse_faults().
struct Fault {
  enum class Kind { delay, fail, exit } kind = Kind::delay;
  int rank = -1;                        // -1: every rank
  uint64_t call = 0;                    // which operation issued on a communicator, counted from 1
  int milliseconds = 0;                 // delay
  ncclResult_t code = ncclSystemError;  // fail
  std::string communicator;             // empty: every communicator
};

struct Settings {
  bool strict = true;   // SANDBOX_NCCL_STRICT
  double timeout = 20;  // SANDBOX_NCCL_TIMEOUT, seconds an operation waits for a peer that shows no progress
  double init_timeout =
      60;  // the same for communicator creation; follows SANDBOX_NCCL_TIMEOUT where that is set
  bool print_traffic = false;  // SANDBOX_NCCL_TRAFFIC
  bool verbose = false;        // NCCL_DEBUG=WARN or more: bad arguments are explained on stderr
  bool informs = false;        // NCCL_DEBUG=INFO or more: plugins and the network are named on stderr
  std::string nodes;           // SANDBOX_NODES
  std::string host_id;         // NCCL_HOSTID
  std::vector<Fault> faults;   // SANDBOX_NCCL_FAULT
};

const Settings& settings();

// clang-format off
// Grammar: FAULT[;FAULT...], FAULT = KIND:KEY=VALUE[,KEY=VALUE...]
//   delay:call=3,rank=1,ms=200   the third operation of rank 1 begins 200 ms late on its stream
//   fail:call=2,rank=0,code=6    the second call of rank 0 returns ncclRemoteError (default 2, a system error)
//   exit:call=4,rank=1           rank 1's process ends without a word when its fourth operation runs
// clang-format on
// `rank` left out: every rank. `comm=NAME`: only communicators of that commName. Throws Failure on anything
// else.
std::vector<Fault> parse_faults(const std::string& text);

}  // namespace sandbox::nccl
