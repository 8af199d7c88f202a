# How the code that is preloaded into other people's programs is compiled: its own overflows end it.
#
# Not in builds without optimization, where _FORTIFY_SOURCE has no effect, nor beside the sanitizers' own checks.
add_library(sdp4bit_hardening INTERFACE)
if(NOT SDP4BIT_SANITIZE)
  set(host_hardening -fstack-protector-strong -fstack-clash-protection)
  set(optimized $<NOT:$<CONFIG:Debug,>>)
  target_compile_options(sdp4bit_hardening INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:${host_hardening}>"
    "$<$<AND:${optimized},$<COMPILE_LANGUAGE:C,CXX>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fstack-protector-strong,-fstack-clash-protection>")
endif()
