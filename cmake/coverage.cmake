# Counts which lines of the library's host code run, for scripts/coverage.sh.
#
# Only the library is counted, not the emulated cluster nor the tests: those stay as fast as ever. Counters are atomic:
# the library's threads count too.
option(SDP4BIT_COVERAGE "Count the lines of the library's host code that run" OFF)
add_library(sdp4bit_coverage INTERFACE)
if(SDP4BIT_COVERAGE)
  target_compile_options(sdp4bit_coverage INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:--coverage;-fprofile-update=atomic>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=--coverage,-fprofile-update=atomic>")
  # Whatever links the library's objects needs the counters' library; other programs take nothing from it.
  add_link_options("$<$<LINK_LANGUAGE:C,CXX>:--coverage>" "$<$<LINK_LANGUAGE:CUDA>:-Xcompiler=--coverage>")
endif()
