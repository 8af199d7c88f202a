#!/bin/bash
# usage: system_calls.sh LIBRARY: the library's own code opens no socket and starts no program.
#
# The build that is linked to the emulated CUDA holds the same objects as the one for GPUs, and no CUDA runtime with
# calls of its own.
set -eu
forbidden='socket|socketpair|connect|bind|listen|accept4?|send(to|msg)?|recv(from|msg)?|getaddrinfo|gethostbyname|system|popen|p?execv?p?e?|execl.*|v?fork|clone3?|posix_spawnp?|set(res|re|e)?[ug]id|f?chmod|chown|symlink|link|putenv|setenv|tmpnam|mktemp'
imports=$(nm -D --undefined-only "$1" | sed 's/.* U //; s/@.*//')
[ "$(wc -l <<<"$imports")" -gt 50 ] || { echo "only: $imports"; exit 1; }
grep -qx getauxval <<<"$imports" || { echo "does not ask whether the process is trusted"; exit 1; }
if grep -xE "$forbidden" <<<"$imports"; then echo "the library may not use these"; exit 1; fi
