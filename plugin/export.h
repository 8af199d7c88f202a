// How a function leaves the library: exports.map lists the names, which alone are visible outside.
#pragma once

#define SDP4BIT_EXPORT extern "C" __attribute__((visibility("default")))
