# Where the emulated cluster's libraries and programs are built.
set(SANDBOX_LIB_DIR ${CMAKE_BINARY_DIR}/sandbox/lib)
set(SANDBOX_BIN_DIR ${CMAKE_BINARY_DIR}/sandbox/bin)

# sandbox_add_program(NAME SOURCES...): an nvcc-built program linked, like any user's with -cudart shared, to
# libcudart.so.13 and libnccl.so.2; in the build tree both are the sandbox's.
function(sandbox_add_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE sdp4bit_options cuda_headers nccl_headers sandbox::cudart sandbox::nccl Threads::Threads)
  set_target_properties(${name} PROPERTIES CUDA_RUNTIME_LIBRARY None)
endfunction()
