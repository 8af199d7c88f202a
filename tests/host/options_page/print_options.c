/* Prints docs/options.md from the option table inside a built library: print_options LIBRARY >
 * docs/options.md */
#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const head =
    "<!-- Made by `cmake --build build/dev --target options_page` from plugin/option_table.cpp. A "
    "test compares. -->\n"
    "\n"
    "# Options\n"
    "\n"
    "Environment variables, read once by each process. Those marked \"equal on all ranks\" shape what goes "
    "on the wire: the\n"
    "first calls of a communicator compare them, and a difference switches the library off on that "
    "communicator. A value\n"
    "that cannot be understood leaves the default in force and gives one warning; so does an unknown "
    "`SDP4BIT_*` name.\n"
    "\n";

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  void* symbol = library ? dlsym(library, "sdp4bitOptionsMarkdown") : NULL;
  sdp4bitTextFunction markdown;
  size_t length;
  char* text;
  if (!symbol) {
    fprintf(stderr, "usage: print_options LIBRARY (%s)\n", argc == 2 ? dlerror() : "no library named");
    return 1;
  }
  memcpy(&markdown, &symbol, sizeof markdown); /* C99 has no cast from data to function pointers */
  length = markdown(NULL, 0);
  text = malloc(length + 1);
  if (!text) return 1;
  markdown(text, length + 1);
  printf("%s%s", head, text);
  free(text);
  return 0;
}
