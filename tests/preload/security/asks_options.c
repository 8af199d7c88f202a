/* usage: asks_options LIBRARY NAME...: what is in force of each variable, once the library is loaded. */
#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  sdp4bitGetOptionFunction get_option;
  void* const found = dlsym(library, "sdp4bitGetOption");
  if (!found) return 2;
  memcpy(&get_option, &found, sizeof found);
  for (int i = 2; i < argc; ++i) {
    sdp4bitOption option = {.size = sizeof option};
    for (size_t index = 0; get_option(index, &option) == 0; ++index) {
      if (strcmp(option.name, argv[i]) == 0) printf("%s=%s\n", option.name, option.value);
    }
  }
  return 0;
}
