// A program that is linked to NCCL: the loader binds its calls before anything else is loaded.
#include "job.h"

int main() {
  return way_in::report(way_in::run_job());
}
