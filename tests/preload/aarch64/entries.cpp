// Entries that only say that a call came here, and what the parts of the library that take calls need
// besides.
#include "answers.h"
#include "plugin/late_binding.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ncclAllGather() {
  return kFromUs;
}
EXPORT int ncclReduceScatter() {
  return kFromUs;
}
EXPORT int ncclCommInitRank() {
  sdp4bit::take_calls_of_new_objects();
  return kFromUs;
}

EXPORT int sdp4bitTakeCalls(const char*) {
  return sdp4bit::take_calls(sdp4bit::Door::program);
}

EXPORT const char* cudaGetErrorName(int) {
  return "an error";
}
EXPORT const char* cudaGetErrorString(int) {
  return "an error";
}
