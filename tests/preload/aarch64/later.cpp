// Loaded when calls are taken already: bound to NCCL like anything else.
extern "C" int ncclAllGather();
extern "C" __attribute__((visibility("default"))) int later_call() {
  return ncclAllGather();
}
