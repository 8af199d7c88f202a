# Warnings and the flags that keep host and device arithmetic identical.
add_library(sdp4bit_options INTERFACE)
target_compile_options(sdp4bit_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  # Messages that name a source file name it from the project's root.
  $<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-unknown-pragmas,-ffp-contract=off>)
if(SDP4BIT_WARNINGS_AS_ERRORS)
  target_compile_options(sdp4bit_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
