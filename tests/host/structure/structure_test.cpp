// One place for each power, dependencies in one direction, and files that say what they are.
#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

#include "source_tree.h"
#include "tests/support/catch.h"

using structure::SourceFile;

namespace {

const std::vector<std::string> kFolders{"plugin", "kernels", "sandbox",  "bench",
                                        "tests",  "include", "examples", "tools"};

std::vector<SourceFile> all_code() {
  std::vector<SourceFile> files;
  for (const std::string& folder : kFolders) {
    for (SourceFile& file : structure::files_below(folder, structure::kCode))
      files.push_back(std::move(file));
  }
  return files;
}

// The product itself: what is linked into the library.
std::vector<SourceFile> product_code() {
  std::vector<SourceFile> files = structure::files_below("plugin", structure::kCode);
  for (SourceFile& file : structure::files_below("kernels", structure::kCode))
    files.push_back(std::move(file));
  return files;
}

// All lines of `files` that match, but for those of `allowed` files; joined, so that a failure shows them.
std::string offenders(const std::vector<SourceFile>& files, const std::string& expression,
                      const std::set<std::string>& allowed) {
  std::string found;
  for (const SourceFile& file : files) {
    if (allowed.contains(file.path)) continue;
    for (const std::string& line : structure::lines_matching(file, expression)) found += line + "\n";
  }
  return found;
}

// The include lines of a file; they are looked up in the text, for the names stand in quotes.
std::string includes_of(const SourceFile& file, const std::string& name) {
  std::istringstream lines(file.text);
  std::string line, found;
  while (std::getline(lines, line)) {
    if (line.starts_with("#include") && line.find(name) != std::string::npos)
      found += file.path + ": " + line + "\n";
  }
  return found;
}

}  // namespace

TEST_CASE("Structure.TheSourcesAreFound") {
  // Without this the other tests would pass on an empty list.
  CHECK(all_code().size() > 40);
  CHECK(product_code().size() > 2);
}

TEST_CASE("Structure.OnlyInterposeDefinesNcclFunctions") {
  CHECK(offenders(product_code(), R"(^[^=(]*\b(ncclResult_t|const char\s*\*|void)\s+p?nccl[A-Z]\w*\s*\()",
                  {"plugin/interpose.cpp", "plugin/nccl_versions.h"}) == "");
}

TEST_CASE("Structure.OnlyThreeFilesAskTheLoader") {
  CHECK(offenders(product_code(), R"(\b(dlsym|dlvsym|dlopen|dlmopen|dl_iterate_phdr|dladdr1?)\b)",
                  {"plugin/real_nccl.cpp", "plugin/late_binding.cpp", "plugin/loaded_object.cpp"}) == "");
}

TEST_CASE("Structure.EveryEntrySaysWhoCalledIt") {
  for (const SourceFile& file : product_code()) {
    if (file.path != "plugin/interpose.cpp") continue;
    CHECK(offenders({file}, R"(\bboundary\(\s*(\[|$))", {}) == "");
    CHECK(offenders({file}, R"(\bboundary\((?!\{\.address = SDP4BIT_CALLER))", {}) == "");
  }
}

TEST_CASE("Structure.OnlyOptionsReadTheEnvironment") {
  CHECK(offenders(product_code(), R"(\b(secure_)?getenv\b|\benviron\b)", {"plugin/options.cpp"}) == "");
}

TEST_CASE("Structure.OnlyTheLogWritesToStandardError") {
  CHECK(offenders(product_code(),
                  R"(\bstderr\b|\bSTDERR_FILENO\b|\bcerr\b|\bperror\b|\b(std::)?v?printf\s*\(|\bcout\b)",
                  {"plugin/log.cpp"}) == "");
}

TEST_CASE("Structure.OnlyKernelFilesLaunch") {
  for (const SourceFile& file : product_code()) {
    if (file.path.starts_with("kernels/") && file.path.ends_with(".cu")) continue;
    CHECK(offenders({file}, R"(<<<|\bcudaLaunch\w*)", {"kernels/launch_kernel.cuh"}) == "");
  }
}

// What is in CUDA's last error may be the program's.
TEST_CASE("Structure.TheLibraryNeverWaitsForAWholeDevice", "[B5]") {
  CHECK(offenders(product_code(), R"(\bcudaDeviceSynchronize\b)", {}) == "");
}

TEST_CASE("Structure.KernelsAreLaunchedWithTheErrorOfTheLaunch") {
  CHECK(offenders(product_code(), "<<<", {}) == "");
  CHECK(offenders(product_code(), R"(\bcuda(Get|PeekAt)LastError\b)", {"plugin/cuda_raii.h"}) == "");
}

TEST_CASE("Structure.EveryKernelIsLoadedBeforeItIsNeeded") {
  std::string forgotten;
  std::size_t kernels = 0;
  for (const SourceFile& file : structure::files_below("kernels", {".cu"})) {
    const std::regex definition(R"(\b(\w+_kernel)\(const|\b(\w+_kernel)\(std::)");
    for (std::sregex_iterator match(file.code.begin(), file.code.end(), definition), end; match != end;
         ++match) {
      const std::string name = (*match)[1].matched ? (*match)[1] : (*match)[2];
      ++kernels;
      if (file.code.find("loader.load(" + name) == std::string::npos)
        forgotten += file.path + ": " + name + "\n";
    }
  }
  CHECK(kernels > 10);  // else the expression has gone stale
  CHECK(forgotten == "");
}

TEST_CASE("Structure.KernelsKnowNeitherNcclNorThePlugin") {
  for (const SourceFile& file : structure::files_below("kernels", structure::kCode)) {
    CHECK(includes_of(file, "nccl.h") == "");
    CHECK(includes_of(file, "plugin/") == "");
    CHECK(includes_of(file, "sandbox/") == "");
  }
}

TEST_CASE("Structure.ThePluginIncludesNoDeviceCodeAndNoSandbox") {
  for (const SourceFile& file : structure::files_below("plugin", structure::kCode)) {
    CHECK(includes_of(file, ".cuh") == "");
    CHECK(includes_of(file, "sandbox/") == "");
  }
}

TEST_CASE("Structure.TheSandboxKnowsNothingOfSdp4bit") {
  CHECK(offenders(structure::files_below("sandbox", structure::kCode), "sdp4bit|SDP4BIT", {}) == "");
  for (const SourceFile& file : structure::files_below("sandbox", structure::kCode)) {
    CHECK(includes_of(file, "plugin/") == "");
    CHECK(includes_of(file, "\"kernels/") == "");
    CHECK(file.text.find("sdp4bit") == std::string::npos);
  }
}

TEST_CASE("Structure.TheMeasuringProgramKnowsNothingOfSdp4bit") {
  for (const SourceFile& file : structure::files_below("bench/collectives", structure::kCode)) {
    CAPTURE(file.path);
    CHECK(file.code.find("sdp4bit") == std::string::npos);
    CHECK(file.text.find("SDP4BIT") == std::string::npos);
  }
}

TEST_CASE("Structure.EveryFileStartsWithItsOwnerSentence") {
  std::string found;
  for (const SourceFile& file : all_code()) {
    if (!file.text.starts_with("//") && !file.text.starts_with("/*")) found += file.path + "\n";
  }
  for (const std::string& folder : kFolders) {
    for (const SourceFile& file : structure::files_below(folder, {"CMakeLists.txt", ".cmake"})) {
      if (!file.text.starts_with("#")) found += file.path + "\n";
    }
  }
  CHECK(found == "");
}

TEST_CASE("Structure.NoFileHasGrownPastSixHundredLines") {
  std::string found;
  for (const SourceFile& file : all_code()) {
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    if (lines > 600) found += file.path + ": " + std::to_string(lines) + "\n";
  }
  CHECK(found == "");
}

TEST_CASE("Structure.EveryHeaderIsGuarded") {
  std::string found;
  for (const SourceFile& file : all_code()) {
    const bool header = file.path.ends_with(".h") || file.path.ends_with(".cuh");
    const bool guarded =
        file.code.find("#pragma once") != std::string::npos || file.code.find("#ifndef") != std::string::npos;
    // Headers that only define or undefine macros are meant to be included more than once.
    const bool repeated = file.path.ends_with("define_handlers.h");
    if (header && !guarded && !repeated) found += file.path + "\n";
  }
  CHECK(found == "");
}
