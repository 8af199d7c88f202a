// Finds the real NCCL: by its soname among loaded objects, else any loaded object that defines
// pncclAllGather.
//
// dlsym(RTLD_NEXT) finds nothing where Python loads the framework, and with it NCCL, RTLD_LOCAL.
#include "plugin/real_nccl.h"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <vector>

#include "plugin/error.h"
#include "plugin/log.h"

namespace sdp4bit {
namespace {

/// A handle on an object that is loaded already; nothing is loaded.
class LoadedObject {
 public:
  explicit LoadedObject(const char* name) : handle_(::dlopen(name, RTLD_NOLOAD | RTLD_LAZY)) {}
  ~LoadedObject() {
    if (handle_) ::dlclose(handle_);
  }
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;
  [[nodiscard]] void* find(const char* symbol) const { return handle_ ? ::dlsym(handle_, symbol) : nullptr; }
  /// Kept: functions found in it stay callable for the life of the process.
  void* keep() { return std::exchange(handle_, nullptr); }

 private:
  void* handle_;
};

std::vector<std::string> loaded_names() {
  std::vector<std::string> names;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        static_cast<std::vector<std::string>*>(list)->emplace_back(info->dlpi_name ? info->dlpi_name : "");
        return 0;
      },
      &names);
  return names;
}

void* find_nccl() {
  constexpr const char* kProof = "pncclAllGather";
  LoadedObject by_soname("libnccl.so.2");
  if (by_soname.find(kProof)) return by_soname.keep();
  for (const std::string& name : loaded_names()) {
    LoadedObject object(name.empty() ? nullptr : name.c_str());  // "" is the program itself
    if (object.find(kProof)) return object.keep();
  }
  throw Error(
      ncclSystemError,
      "no loaded object defines pncclAllGather: NCCL is not loaded, or is older than 2.16, or is linked "
      "statically with hidden symbols; sdp4bit cannot work with it, run without LD_PRELOAD");
}

RealNccl resolve() {
  void* const nccl = find_nccl();
  RealNccl real;
  std::string missing;
  const auto optional = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(nccl, name));
    return function != nullptr;
  };
  const auto required = [&](const char* name, auto& function) {
    if (!optional(name, function)) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
  required("pncclReduceScatter", real.reduce_scatter);
  required("pncclAllGather", real.all_gather);
  required("pncclSend", real.send);
  required("pncclRecv", real.recv);
  required("pncclGroupStart", real.group_start);
  required("pncclGroupEnd", real.group_end);
  required("pncclCommInitRank", real.comm_init_rank);
  required("pncclCommInitAll", real.comm_init_all);
  required("pncclCommDestroy", real.comm_destroy);
  required("pncclCommAbort", real.comm_abort);
  required("pncclCommGetAsyncError", real.comm_get_async_error);
  required("pncclCommCount", real.comm_count);
  required("pncclCommUserRank", real.comm_user_rank);
  required("pncclCommCuDevice", real.comm_cu_device);
  required("pncclRedOpCreatePreMulSum", real.red_op_create_pre_mul_sum);
  required("pncclRedOpDestroy", real.red_op_destroy);
  required("pncclGetVersion", real.get_version);
  if (!missing.empty()) {
    throw Error(ncclSystemError, "the loaded NCCL lacks " + missing + "; sdp4bit needs NCCL 2.16 or later");
  }
  optional("pncclCommInitRankConfig", real.comm_init_rank_config);
  optional("pncclCommFinalize", real.comm_finalize);
  optional("pncclCommSplit", real.comm_split);
  optional("pncclGroupSimulateEnd", real.group_simulate_end);
  optional("pncclCommInitRankScalable", real.comm_init_rank_scalable);
  optional("pncclCommShrink", real.comm_shrink);
  optional("pncclCommRevoke", real.comm_revoke);
  check(real.get_version(&real.version));
  return real;
}

}  // namespace

const RealNccl& real_nccl() {
  static const RealNccl real = resolve();
  return real;
}

}  // namespace sdp4bit
