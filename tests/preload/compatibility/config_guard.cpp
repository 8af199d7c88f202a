// usage: config_guard [success]: creates a communicator with the configuration of the nccl.h at hand, behind
// which memory ends. It must not be read or written beyond its size. Without `success` NCCL may refuse: there
// may be no GPU.
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>

namespace {

/// The last `bytes` before a page that cannot be touched.
void* end_of_memory(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  char* const guard = static_cast<char*>(memory) + page;
  if (mprotect(guard, page, PROT_NONE) != 0) return nullptr;
  return guard - bytes;
}

}  // namespace

int main(int count, char** arguments) {
  const bool must_succeed = count > 1 && std::strcmp(arguments[1], "success") == 0;
  void* const place = end_of_memory(sizeof(ncclConfig_t));
  if (place == nullptr) return 2;
  ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  auto* const config = static_cast<ncclConfig_t*>(std::memcpy(place, &initial, sizeof initial));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  config->commName = "DATA_PARALLEL_GROUP";
#endif
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) return 3;
  ncclComm_t comm = nullptr;
  const ncclResult_t created = ncclCommInitRankConfig(&comm, 1, id, 0, config);
  std::printf("created: %d\n", static_cast<int>(created));
  if (created != ncclSuccess) return must_succeed ? 4 : 0;
  ncclComm_t child = nullptr;
  const ncclResult_t split = ncclCommSplit(comm, 0, 0, &child, config);
  std::printf("split: %d\n", static_cast<int>(split));
  return split == ncclSuccess && ncclCommDestroy(child) == ncclSuccess && ncclCommDestroy(comm) == ncclSuccess
             ? 0
             : 5;
}
