// Creates communicators with configurations of all sizes from NCCL 2.14's to one longer than ours, each at
// the end of what memory there is: nothing beyond its size is read or written, and fields within it still
// count.
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

int main() {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  char* const guard = static_cast<char*>(memory) + page;
  if (mprotect(guard, page, PROT_NONE) != 0) return 2;
  constexpr std::size_t kShortest = offsetof(ncclConfig_t, blocking) + sizeof(int), kMore = 64;
  for (std::size_t bytes = (kShortest + 7) / 8 * 8; bytes <= sizeof(ncclConfig_t) + kMore; bytes += 8) {
    ncclConfig_t whole = NCCL_CONFIG_INITIALIZER;
    whole.size = bytes;
    whole.commName = "DATA_PARALLEL_GROUP";
    std::memset(guard - bytes, 0, bytes);
    std::memcpy(guard - bytes, &whole, bytes < sizeof whole ? bytes : sizeof whole);
    auto* const config = reinterpret_cast<ncclConfig_t*>(guard - bytes);
    ncclUniqueId id;
    ncclComm_t comm = nullptr, child = nullptr;
    if (ncclGetUniqueId(&id) != ncclSuccess ||
        ncclCommInitRankConfig(&comm, 1, id, 0, config) != ncclSuccess ||
        ncclCommSplit(comm, 0, 0, &child, config) != ncclSuccess || ncclCommDestroy(child) != ncclSuccess ||
        ncclCommDestroy(comm) != ncclSuccess) {
      std::printf("a configuration of %zu bytes failed\n", bytes);
      return 1;
    }
  }
  return 0;
}
