# What is installed where, below any prefix: files find each other by relative paths, so the whole may be moved.
#
# Components: runtime (the library and NCCL's plugins), development, tools, documentation; and emulator, which only
# `cmake --install BUILD --component emulator` installs. cmake/package.cmake makes packages of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

write_basic_package_version_file(${CMAKE_BINARY_DIR}/sdp4bit-config-version.cmake COMPATIBILITY SameMinorVersion)

# sdp4bit_relative_path(RESULT FROM TO): between two folders below the prefix.
function(sdp4bit_relative_path result from to)
  cmake_path(RELATIVE_PATH to BASE_DIRECTORY ${from} OUTPUT_VARIABLE path)
  set(${result} ${path} PARENT_SCOPE)
endfunction()

# sdp4bit_install(PREFIX LIBDIR [EXCLUDE_FROM_ALL]): everything, into components that are named PREFIX and the above.
# Once for `cmake --install` and archives, and once more for Debian's package, whose libraries' folder has another name.
function(sdp4bit_install components libdir)
  set(optional ${ARGN})
  set(runtime COMPONENT ${components}runtime ${optional})
  set(development COMPONENT ${components}development ${optional})
  set(tools COMPONENT ${components}tools ${optional})

  # Also the name without a number belongs to the runtime: it is the one that is preloaded.
  install(TARGETS sdp4bit sdp4bit_headers EXPORT ${components}sdp4bit LIBRARY DESTINATION ${libdir} ${runtime})
  install(TARGETS sdp4bit_net sdp4bit_profiler LIBRARY DESTINATION ${libdir} ${runtime})

  set(SDP4BIT_LIBDIR ${libdir})
  sdp4bit_relative_path(SDP4BIT_PREFIX_FROM_PKGCONFIG /${libdir}/pkgconfig /)
  configure_file(packaging/sdp4bit.pc.in ${CMAKE_BINARY_DIR}/packaging/${components}sdp4bit.pc @ONLY)
  install(FILES include/sdp4bit/sdp4bit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sdp4bit ${development})
  install(FILES ${CMAKE_BINARY_DIR}/packaging/${components}sdp4bit.pc RENAME sdp4bit.pc
    DESTINATION ${libdir}/pkgconfig ${development})
  install(EXPORT ${components}sdp4bit NAMESPACE sdp4bit:: FILE sdp4bit-config.cmake
    DESTINATION ${libdir}/cmake/sdp4bit ${development})
  install(FILES ${CMAKE_BINARY_DIR}/sdp4bit-config-version.cmake DESTINATION ${libdir}/cmake/sdp4bit ${development})

  configure_file(packaging/man/sdp4bit.1.in ${CMAKE_BINARY_DIR}/packaging/${components}sdp4bit.1 @ONLY)
  install(PROGRAMS tools/sdp4bit DESTINATION ${CMAKE_INSTALL_BINDIR} ${tools})
  install(DIRECTORY tools/sdp4bit_tool DESTINATION ${CMAKE_INSTALL_DATADIR}/sdp4bit ${tools}
    PATTERN __pycache__ EXCLUDE)

  # README.md refers to the others by these names.
  install(FILES README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
    COMPONENT ${components}documentation ${optional})
  install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    COMPONENT ${components}documentation ${optional} USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
endfunction()

# A folder of its own: their names are those of NVIDIA's libraries, and no loader may find them by itself.
function(sdp4bit_install_emulator components libdir)
  set(emulator ${libdir}/sdp4bit/emulator)
  set(here COMPONENT ${components}emulator EXCLUDE_FROM_ALL)
  set(SDP4BIT_LIBDIR ${libdir})
  sdp4bit_relative_path(SDP4BIT_EMULATOR_FROM_BIN /${CMAKE_INSTALL_BINDIR} /${emulator})
  configure_file(packaging/emulator/sdp4bit-emulator.in ${CMAKE_BINARY_DIR}/packaging/${components}sdp4bit-emulator @ONLY)
  configure_file(packaging/man/sdp4bit-emulator.1.in ${CMAKE_BINARY_DIR}/packaging/sdp4bit-emulator.1 @ONLY)
  set(programs "")
  if(TARGET collectives_sandbox)
    list(APPEND programs collectives_sandbox)
  endif()
  install(TARGETS sandbox_cudart sandbox_nccl sdp4bit_sandbox LIBRARY DESTINATION ${emulator} ${here})
  install(TARGETS sdp4bit_sandbox_net sdp4bit_sandbox_profiler ${programs}
    LIBRARY DESTINATION ${emulator} ${here} RUNTIME DESTINATION ${emulator} ${here})
  install(PROGRAMS ${CMAKE_BINARY_DIR}/packaging/${components}sdp4bit-emulator RENAME sdp4bit-emulator
    DESTINATION ${CMAKE_INSTALL_BINDIR} ${here})
endfunction()

sdp4bit_install("" ${CMAKE_INSTALL_LIBDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(FILES ${CMAKE_BINARY_DIR}/packaging/sdp4bit.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
if(SDP4BIT_BUILD_SANDBOX)
  set_target_properties(sandbox_cudart sandbox_nccl sdp4bit_sandbox PROPERTIES INSTALL_RPATH "\$ORIGIN")
  if(TARGET collectives_sandbox)
    set_target_properties(collectives_sandbox PROPERTIES INSTALL_RPATH "\$ORIGIN")
  endif()
  sdp4bit_install_emulator("" ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${CMAKE_BINARY_DIR}/packaging/sdp4bit-emulator.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
    COMPONENT emulator EXCLUDE_FROM_ALL)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT emulator EXCLUDE_FROM_ALL)
endif()
