// usage: two_copies MODULE MODULE [NCCL]: two libraries, each bound to an NCCL of its own, use it by turns;
// NCCL: a third copy, by path, called through pointers as a Python program with ctypes does.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <sdp4bit/sdp4bit.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

template <typename Function>
Function find(void* library, const char* name) {
  const auto function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) std::printf("failed: %s\n", dlerror()), std::exit(1);
  return function;
}

struct Module {
  explicit Module(const char* path) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::printf("failed: %s\n", dlerror()), std::exit(1);
    create = find<ncclComm_t (*)()>(library, "module_create");
    gather = find<ncclResult_t (*)(ncclComm_t, float*, int)>(library, "module_gather");
    destroy = find<ncclResult_t (*)(ncclComm_t)>(library, "module_destroy");
    open_groups = find<int (*)(int)>(library, "module_open_groups");
  }
  ncclComm_t (*create)();
  ncclResult_t (*gather)(ncclComm_t, float*, int grouped);
  ncclResult_t (*destroy)(ncclComm_t);
  int (*open_groups)(int times);
};

std::uint64_t gathers_seen() {
  std::uint64_t all = 0;
  const auto calls = reinterpret_cast<sdp4bitGetCallsFunction>(dlsym(RTLD_DEFAULT, "sdp4bitGetCalls"));
  expect(calls != nullptr && calls("all_gather", &all, nullptr) == 0, "the library is preloaded");
  return all;
}

void look_up_from_threads(const Module& first, const Module& second) {
  constexpr int kThreads = 8, kTimes = 2500;  // two calls each, of two modules
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int part = 0; part < 10; ++part) {
        failed += first.open_groups(kTimes / 10) + second.open_groups(kTimes / 10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(failed == 0, "groups from eight threads");
}

void use_by_pointer(const char* path, float* memory) {
  void* const nccl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (nccl == nullptr) {
    std::printf("failed: %s\n", dlerror());
    ++failures;
    return;
  }
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  expect(find<decltype(&ncclGetUniqueId)>(nccl, "ncclGetUniqueId")(&id) == ncclSuccess, "an id by pointer");
  expect(find<decltype(&ncclCommInitRank)>(nccl, "ncclCommInitRank")(&comm, 1, id, 0) == ncclSuccess,
         "a communicator by pointer");
  expect(find<decltype(&ncclAllGather)>(nccl, "ncclAllGather")(memory, memory + 1, 1, ncclFloat32, comm,
                                                               nullptr) == ncclSuccess,
         "a gather by pointer");
  expect(find<decltype(&ncclCommDestroy)>(nccl, "ncclCommDestroy")(comm) == ncclSuccess, "its end");
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const Module first(arguments[1]), second(arguments[2]);
  float* memory = nullptr;
  if (cudaMalloc(reinterpret_cast<void**>(&memory), 2 * sizeof(float)) != cudaSuccess) return 2;
  ncclComm_t const of_first = first.create(), of_second = second.create();
  expect(of_first != nullptr && of_second != nullptr, "two communicators");
  for (const int grouped : {0, 1}) {
    expect(first.gather(of_first, memory, grouped) == ncclSuccess, "the first in its own library");
    expect(second.gather(of_second, memory, grouped) == ncclSuccess, "the second in its own library");
  }
  // Without us the other copy would get a communicator that is none of its own.
  expect(second.gather(of_first, memory, 0) == ncclSuccess, "the first's communicator finds its NCCL");
  expect(second.gather(of_first, memory, 1) == ncclInvalidUsage, "in the other's group it is refused");
  expect(gathers_seen() == 5, "five gathers came by us");
  look_up_from_threads(first, second);
  if (count > 3) use_by_pointer(arguments[3], memory);
  expect(second.destroy(of_second) == ncclSuccess && first.destroy(of_first) == ncclSuccess, "the end");
  if (failures == 0) std::printf("all well\n");
  return failures == 0 ? 0 : 1;
}
