/* A profiler as NVTX loads one (NVTX_INJECTION64_PATH): writes "push NAME" and "pop" to the file that
 * RANGES_FILE names. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE* file;

static nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  fprintf(file, "domain %s\n", name);
  return (nvtxDomainHandle_t)file;
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  if ((FILE*)domain != file) abort();
  fprintf(file, "push %s\n", attributes->message.ascii);
  return 0;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  if ((FILE*)domain != file) abort();
  fprintf(file, "pop\n");
  fflush(file);
  return 0;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  const char* const path = getenv("RANGES_FILE");
  nvtxDomainHandle_t(NVTX_API* const create_function)(const char*) = create_domain;
  int(NVTX_API* const push_function)(nvtxDomainHandle_t, const nvtxEventAttributes_t*) = push;
  int(NVTX_API* const pop_function)(nvtxDomainHandle_t) = pop;
  if (!callbacks || !path) return 0;
  file = fopen(path, "w");
  if (!file || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  memcpy(table[NVTX_CBID_CORE2_DomainCreateA], &create_function, sizeof create_function);
  memcpy(table[NVTX_CBID_CORE2_DomainRangePushEx], &push_function, sizeof push_function);
  memcpy(table[NVTX_CBID_CORE2_DomainRangePop], &pop_function, sizeof pop_function);
  return 1;
}
