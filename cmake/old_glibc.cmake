# What is built on a new system loads on an old one too (glibc 2.18 and later): a preloaded library that asks for a
# newer glibc than the machine has ends every process there.
#
# glibc 2.34 gave the functions of libpthread, libdl and librt a new version in libc, and kept the old one, of the same
# code, for programs linked before. The linker takes the new one. Here it first meets three libraries that hold nothing
# but the old names, and the result is what linking on an old system gives: it asks for libpthread.so.0 and the others,
# which every later glibc has. tests/preload/runs_on_old_systems.sh says which glibc is asked for.
include(CheckCSourceCompiles)
check_c_source_compiles("
  #include <features.h>
  #if !__GLIBC_PREREQ(2, 34) || !(defined(__x86_64__) || defined(__aarch64__))
  #error nothing to do here
  #endif
  int main(void) { return 0; }" SDP4BIT_HAS_NEW_GLIBC)

set(old_glibc_libraries "")
if(SDP4BIT_HAS_NEW_GLIBC AND NOT SDP4BIT_SANITIZE)  # a sanitizer's own library asks for the glibc of this system
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    set(first_version GLIBC_2.17)
  else()
    set(first_version GLIBC_2.2.5)
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/old_glibc/symbols.txt)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/old_glibc/symbols.txt rows REGEX "^[^#]")
  foreach(row IN LISTS rows)
    string(REGEX MATCHALL "[^ ]+" words "${row}")
    list(LENGTH words length)
    list(GET words 0 symbol)
    list(GET words 1 library)
    set(version ${first_version})
    if(length GREATER 2 AND first_version STREQUAL "GLIBC_2.2.5")
      list(GET words 2 version)
    endif()
    string(APPEND source_of_${library} "void ${symbol}(void) {}\n")
    string(APPEND symbols_of_${library}_${version} " ${symbol};")
    list(APPEND versions_of_${library} ${version})
    list(APPEND old_glibc_libraries ${library})
  endforeach()
  list(REMOVE_DUPLICATES old_glibc_libraries)
  foreach(library IN LISTS old_glibc_libraries)
    set(folder ${PROJECT_BINARY_DIR}/old_glibc)
    set(map_of_${library} "")
    list(REMOVE_DUPLICATES versions_of_${library})
    foreach(version IN LISTS versions_of_${library})
      string(APPEND map_of_${library} "${version} {${symbols_of_${library}_${version}} };\n")
    endforeach()
    file(CONFIGURE OUTPUT ${folder}/${library}.c CONTENT "${source_of_${library}}")
    file(CONFIGURE OUTPUT ${folder}/${library}.map CONTENT "${map_of_${library}}")
    # Named unlike what they stand for: nothing may ever load them.
    add_library(old_glibc_${library} SHARED ${folder}/${library}.c)
    set_target_properties(old_glibc_${library} PROPERTIES
      PREFIX "" OUTPUT_NAME ${library} SUFFIX .for_the_linker NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${folder}
      C_VISIBILITY_PRESET default LINK_DEPENDS ${folder}/${library}.map)
    target_link_options(old_glibc_${library} PRIVATE
      -nostdlib -Wl,-soname,${library} -Wl,--version-script=${folder}/${library}.map)
  endforeach()
endif()

# link_to_old_glibc(TARGET): by flags and not by target_link_libraries, which would have the loader search the folder.
function(link_to_old_glibc target)
  foreach(library IN LISTS old_glibc_libraries)
    target_link_options(${target} PRIVATE
      "LINKER:--push-state,--no-as-needed,$<TARGET_FILE:old_glibc_${library}>,--pop-state")
    add_dependencies(${target} old_glibc_${library})
  endforeach()
endfunction()
