// usage: bound [MODULE]: a program that is linked to NCCL: the loader binds its calls before anything else is
// loaded. MODULE is loaded after the program's own job, and runs one as well.
#include <fstream>

#include "job.h"

namespace {

/// The program's own pages and what may be done with them, as text.
std::string own_pages() {
  std::ifstream maps("/proc/self/maps");
  std::string pages;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("way_in_") != std::string::npos) pages += line + "\n";
  }
  return pages;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string pages = own_pages();
  const char* failure = way_in::run_job();
  if (failure == nullptr && (pages.empty() || own_pages() != pages))
    failure = "pages are not left as they were";
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
