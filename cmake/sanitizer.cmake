# Host code with a sanitizer; what tests must then preload, and how they fail at the first finding.
#
# nvcc's code for the device is as ever: the emulated device that runs it is host code.
set(SDP4BIT_SANITIZE "" CACHE STRING "Build host code with sanitizers: thread, or address,undefined")
set(sanitizer_runtime "")  # the library that must be loaded before anything built with it
if(SDP4BIT_SANITIZE)
  set(sanitizer_flags -fsanitize=${SDP4BIT_SANITIZE})
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:C,CXX>:${sanitizer_flags};-fno-omit-frame-pointer;-fno-sanitize-recover=undefined>")
  add_link_options(${sanitizer_flags})
  string(REGEX MATCH "address|thread" first_sanitizer ${SDP4BIT_SANITIZE})
  string(SUBSTRING "${first_sanitizer}" 0 1 initial)
  if(initial)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=lib${initial}san.so
      OUTPUT_VARIABLE sanitizer_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT IS_ABSOLUTE "${sanitizer_runtime}")
      message(FATAL_ERROR "${CMAKE_CXX_COMPILER} has no lib${initial}san.so; install it, or choose another preset than "
        "asan and tsan")
    endif()
  endif()
endif()

# preloaded(VARIABLE LIBRARY): the text for LD_PRELOAD that brings a library of this build into a program.
function(preloaded variable library)
  if(sanitizer_runtime)
    set(${variable} "${sanitizer_runtime}:${library}" PARENT_SCOPE)
  else()
    set(${variable} "${library}" PARENT_SCOPE)
  endif()
endfunction()

# seconds_for(VARIABLE SECONDS): a test's time limit, which a sanitizer stretches.
function(seconds_for variable seconds)
  if(SDP4BIT_SANITIZE)
    math(EXPR seconds "5 * ${seconds}")
  endif()
  set(${variable} ${seconds} PARENT_SCOPE)
endfunction()

# The first finding ends its process with a code of its own; what the user's environment says comes last and wins.
if(SDP4BIT_SANITIZE)
  set(environment ${CMAKE_BINARY_DIR}/sanitizer_environment.cmake)
  file(WRITE ${environment} [=[
set(ENV{TSAN_OPTIONS} "halt_on_error=1:exitcode=66:die_after_fork=0:$ENV{TSAN_OPTIONS}")
set(ENV{ASAN_OPTIONS} "exitcode=66:detect_stack_use_after_return=1:$ENV{ASAN_OPTIONS}")
set(ENV{UBSAN_OPTIONS} "print_stacktrace=1:$ENV{UBSAN_OPTIONS}")
]=])
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY TEST_INCLUDE_FILES ${environment})
endif()
