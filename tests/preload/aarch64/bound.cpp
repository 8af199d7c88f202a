// usage: bound LIBRARY LATER: a program whose calls of NCCL are bound, called or not, before LIBRARY is
// loaded; LATER comes behind it. Says which call did not lead where it should.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "answers.h"

extern "C" {
int ncclAllGather();
int ncclReduceScatter();
int ncclCommInitRank();
int ncclCommInitAll();
int ncclSend();
int pncclAllGather();
}

namespace {

int failures = 0;

void expect(int answer, int wanted, const char* what) {
  if (answer == wanted) return;
  std::printf("%s: %d instead of %d\n", what, answer, wanted);
  ++failures;
}

/// A word that the loader fills when the program starts.
int (*volatile stored)() = &ncclReduceScatter;

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  expect(ncclAllGather(), kFromNccl, "a call before");
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  // As NCCL's plugin the library takes calls when it is loaded.
  const bool is_plugin = std::strstr(arguments[1], "net") != nullptr;
  using TakeCalls = int (*)(const char*);
  const auto take_calls = reinterpret_cast<TakeCalls>(dlsym(library, "sdp4bitTakeCalls"));
  if (!is_plugin && (take_calls == nullptr || take_calls("program") < 3)) {
    std::printf("no calls are taken\n");
    return 2;
  }
  expect(ncclAllGather(), kFromUs, "a call that was made before");
  expect(ncclReduceScatter(), kFromUs, "a call that was not made before");
  expect(stored(), kFromUs, "a stored pointer");
  expect(ncclSend(), kFromNccl, "a function that is NCCL's alone");
  expect(pncclAllGather(), kFromNccl, "a call by NCCL's profiling name");
  void* const later = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  expect(ncclCommInitRank(), kFromUs, "the program's next communicator");
  const auto later_call = later ? reinterpret_cast<int (*)()>(dlsym(later, "later_call")) : nullptr;
  expect(later_call ? later_call() : -1, kFromUs, "a call of a library that came later");
  return failures == 0 ? 0 : 1;
}
