// usage: bound [MODULE]: a program that is linked to NCCL: the loader binds its calls before anything else is
// loaded. MODULE is loaded after the program's own job, and runs one as well.
#include "job.h"

int main(int count, char** arguments) {
  const char* failure = way_in::run_job();
  if (failure == nullptr && count > 1) {
    void* const module = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    ncclComm_t another = nullptr;
    // The program's next communicator is when new libraries are looked at.
    if (module == nullptr || ncclCommInitAll(&another, 1, nullptr) != ncclSuccess ||
        ncclCommDestroy(another) != ncclSuccess) {
      failure = "loading the module";
    } else {
      return reinterpret_cast<int (*)()>(dlsym(module, "module_job"))();
    }
  }
  return way_in::report(failure);
}
