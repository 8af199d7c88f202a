// A library that has names of NCCL's and is none: some of them, such as a stub for linking, or with
// STUB_VERSION all that sdp4bit needs and a version that cannot be.
#define STUB(name)                                               \
  extern "C" __attribute__((visibility("default"))) int name() { \
    return 3;                                                    \
  }
STUB(pncclAllGather)
STUB(pncclReduceScatter)
STUB(pncclGroupStart)
STUB(pncclGroupEnd)
#ifdef STUB_VERSION
STUB(pncclSend)
STUB(pncclRecv)
STUB(pncclCommInitRank)
STUB(pncclCommInitAll)
STUB(pncclCommDestroy)
STUB(pncclCommAbort)
STUB(pncclCommGetAsyncError)
STUB(pncclCommCount)
STUB(pncclCommUserRank)
STUB(pncclCommCuDevice)
STUB(pncclRedOpCreatePreMulSum)
STUB(pncclRedOpDestroy)
extern "C" __attribute__((visibility("default"))) int pncclGetVersion(int* version) {
  *version = STUB_VERSION;
  return 0;
}
#endif
