// Entries of NCCL's device API: exported so that programs link, refused by name because no kernel can run
// them here.
#include <nccl_device/core.h>

#include "sandbox/nccl/api.h"

using namespace sandbox::nccl;

namespace {

ncclResult_t refuse(const char* name) {
  complain(std::string(name) + " is not supported: the sandbox has no device-side communication");
  return ncclInvalidUsage;
}

ncclTeam no_team(const char* name) {
  refuse(name);
  return ncclTeam{0, 0, 0};
}

}  // namespace

SANDBOX_NCCL_ENTRY(ncclResult_t, DevCommCreate,
                   (ncclComm_t, const ncclDevCommRequirements_t*, ncclDevComm_t*)) {
  return refuse("ncclDevCommCreate");
}
SANDBOX_NCCL_ENTRY(ncclResult_t, DevCommDestroy, (ncclComm_t, const ncclDevComm_t*)) {
  return refuse("ncclDevCommDestroy");
}
SANDBOX_NCCL_ENTRY(ncclTeam_t, TeamWorld, (ncclComm_t)) {
  return no_team("ncclTeamWorld");
}
SANDBOX_NCCL_ENTRY(ncclTeam_t, TeamLsa, (ncclComm_t)) {
  return no_team("ncclTeamLsa");
}
SANDBOX_NCCL_ENTRY(ncclTeam_t, TeamRail, (ncclComm_t)) {
  return no_team("ncclTeamRail");
}
SANDBOX_NCCL_ENTRY(int, TeamRankToWorld, (ncclComm_t, ncclTeam_t, int)) {
  refuse("ncclTeamRankToWorld");
  return -1;
}
SANDBOX_NCCL_ENTRY(int, TeamRankToLsa, (ncclComm_t, ncclTeam_t, int)) {
  refuse("ncclTeamRankToLsa");
  return -1;
}
SANDBOX_NCCL_ENTRY(ncclResult_t, GinBarrierCreateRequirement,
                   (ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*, ncclDevResourceRequirements_t*)) {
  return refuse("ncclGinBarrierCreateRequirement");
}
SANDBOX_NCCL_ENTRY(ncclResult_t, LsaBarrierCreateRequirement,
                   (ncclTeam_t, int, ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*)) {
  return refuse("ncclLsaBarrierCreateRequirement");
}
SANDBOX_NCCL_ENTRY(int, LLA2ACalcSlots, (int, int)) {
  refuse("ncclLLA2ACalcSlots");
  return 0;
}
SANDBOX_NCCL_ENTRY(ncclResult_t, LLA2ACreateRequirement,
                   (int, int, ncclLLA2AHandle_t*, ncclDevResourceRequirements_t*)) {
  return refuse("ncclLLA2ACreateRequirement");
}
