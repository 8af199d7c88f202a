/* Calls the library without a loader of its own. */
#include <sdp4bit/sdp4bit.h>
#include <stdio.h>

int main(void) {
  printf("version %s\n", sdp4bitVersion());
  return 0;
}
