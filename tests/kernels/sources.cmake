# The tests of the kernels that run on any runtime: the sandbox's, and a GPU's in tests/gpu.
set(KERNEL_TEST_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/gradient_phases.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_checksum.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_draw.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_health.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_quantize.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_reduce_finish.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_reduce_requantize.cpp
  ${CMAKE_CURRENT_LIST_DIR}/test_sample.cpp)
set(WEIGHT_KERNEL_TEST_SOURCES
  ${CMAKE_CURRENT_LIST_DIR}/weights/test_companded.cpp
  ${CMAKE_CURRENT_LIST_DIR}/weights/test_weights.cpp
  ${CMAKE_CURRENT_LIST_DIR}/weights/weight_phases.cpp)
