/* The public interface of libsdp4bit.so, C99. Nobody links to the library: it is preloaded, and a program
 * that wants to talk to it finds these functions by dlsym(RTLD_DEFAULT, name); the typedefs are for that. */
#ifndef SDP4BIT_SDP4BIT_H
#define SDP4BIT_SDP4BIT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
const char* sdp4bitVersion(void);
typedef const char* (*sdp4bitVersionFunction)(void);

/* Text functions write up to `capacity` bytes, a final zero included, and return the length of the whole text
 * without it; capacity 0 with buffer NULL asks for the length. */
typedef size_t (*sdp4bitTextFunction)(char* buffer, size_t capacity);
/* The options as a table for documentation, and as NAME=value lines with the values in force. */
size_t sdp4bitOptionsMarkdown(char* buffer, size_t capacity);
size_t sdp4bitOptionsInForce(char* buffer, size_t capacity);
/* What SDP4BIT_STATS writes at exit, now. */
size_t sdp4bitStatisticsJson(char* buffer, size_t capacity);

/* Calls of this process so far: all, and those that were compressed. Collective is "reduce_scatter" or
 * "all_gather"; returns 0, or -1 for any other name. */
int sdp4bitGetCalls(const char* collective, uint64_t* all, uint64_t* compressed);
typedef int (*sdp4bitGetCallsFunction)(const char* collective, uint64_t* all, uint64_t* compressed);

/* For a process that loaded the library after NCCL's callers were bound, instead of preloading it: from now
 * on their calls come here, also those of objects loaded later. Call it before communicators are used. `door`
 * is NULL; NCCL's plugins pass "net" or "profiler". Returns how many references to NCCL lead here, or -1 if
 * none were taken; the log says why. */
int sdp4bitTakeCalls(const char* door);
typedef int (*sdp4bitTakeCallsFunction)(const char* door);

#ifdef __cplusplus
}
#endif
#endif
