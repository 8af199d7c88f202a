// The reader of loaded objects against the loader itself, on every object of this process.
#include "plugin/loaded_object.h"

#include <dlfcn.h>
#include <search.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

using sdp4bit::LoadedObject;

namespace {

extern "C" __attribute__((visibility("default"))) int a_function_of_this_program() {
  return 1;
}

std::vector<LoadedObject> all_objects() {
  std::vector<LoadedObject> objects;
  sdp4bit::for_each_loaded_object([&](const LoadedObject& object) { objects.push_back(object); });
  return objects;
}

LoadedObject c_library() {
  for (const LoadedObject& object : all_objects()) {
    if (std::string(object.soname()) == "libc.so.6") return object;
  }
  throw std::runtime_error("no libc.so.6");
}

}  // namespace

TEST_CASE("LoadedObject.FindsWhatItListsAndNothingElse") {
  std::size_t functions = 0, other_versions = 0;
  for (const LoadedObject& object : all_objects()) {
    object.for_each_defined("", [&](const char* name, void* address) {
      ++functions;
      void* const found = object.defined(name);
      CHECK(found != nullptr);
      if (found != address) ++other_versions;  // memcpy@GLIBC_2.2.5 and memcpy@@GLIBC_2.14
    });
    CHECK(object.defined("a_name_that_nobody_defines") == nullptr);
  }
  CHECK(functions > 1000);
  CHECK(other_versions < functions / 10);
}

TEST_CASE("LoadedObject.AgreesWithTheLoader") {
  const LoadedObject libc = c_library();
  // Functions that no sanitizer puts itself before.
  CHECK(libc.defined("lfind") == dlsym(RTLD_DEFAULT, "lfind"));
  CHECK(libc.defined("hsearch") == dlsym(RTLD_DEFAULT, "hsearch"));
  CHECK(libc.defined("a_function_of_this_program") == nullptr);
  const auto holder = LoadedObject::at(libc.defined("lfind"));
  REQUIRE(holder.has_value());
  CHECK(holder->identity() == libc.identity());
  CHECK(libc.holds(reinterpret_cast<std::uintptr_t>(libc.defined("lfind"))));
  const int on_stack = 0;
  CHECK(!libc.holds(reinterpret_cast<std::uintptr_t>(&on_stack)));
  CHECK(!LoadedObject::at(&on_stack).has_value());
}

TEST_CASE("LoadedObject.SeesThroughWhichWordsAFunctionIsCalled") {
  const auto self = LoadedObject::at(reinterpret_cast<const void*>(&a_function_of_this_program));
  REQUIRE(self.has_value());
  std::size_t references = 0;
  const int numbers[] = {2, 1};
  std::size_t count = 2;
  const auto differ = [](const void* a, const void* b) {
    return *static_cast<const int*>(a) - *static_cast<const int*>(b);
  };
  CHECK(lfind(&numbers[1], numbers, &count, sizeof *numbers, differ) == &numbers[1]);  // the call is there
  self->for_each_reference([&](std::string_view name, std::uintptr_t* word, LoadedObject::Reference kind) {
    if (name != "lfind") return;
    ++references;
    const bool bound = *word == reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "lfind"));
    CHECK((bound || kind == LoadedObject::Reference::lazy));
  });
  CHECK(references == 1);
}

TEST_CASE("LoadedObject.CountsWhatIsLoaded") {
  const unsigned long long before = sdp4bit::loads_so_far();
  CHECK(before > 0);
  void* const library = dlopen("libanl.so.1", RTLD_NOW);
  CHECK(sdp4bit::loads_so_far() >= before);
  if (library != nullptr) dlclose(library);
}
