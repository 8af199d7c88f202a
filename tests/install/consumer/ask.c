/* Asks the library whether it is there, which version it is, and for its options. */
#include <sdp4bit/sdp4bit.h>
#include <stdio.h>

int main(void) {
  sdp4bitFunctions sdp4bit;
  if (!sdp4bitLoad(&sdp4bit)) {
    puts("not loaded");
    return 0;
  }
  printf("version %s, options: %s\n", sdp4bit.version(),
         sdp4bit.options_in_force(NULL, 0) > 0 ? "yes" : "no");
  return 0;
}
