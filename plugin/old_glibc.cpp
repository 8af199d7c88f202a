// What the standard library asks of newer glibcs only, answered here, so that ours loads beside older ones.
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>

// True lets shared_ptr count without atomics. False is always right; hidden, as all that exports.map does not
// list.
extern "C" {
char __libc_single_threaded = 0;
}
#endif
