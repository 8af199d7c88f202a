# Packages of what cmake/install.cmake installs: `cpack -G TGZ` archives to unpack anywhere, `cpack -G DEB` packages for
# Debian and Ubuntu; each one of the product and one of the emulated cluster.
set(SDP4BIT_MAINTAINER "sdp4bit maintainers <maintainers@sdp4bit.invalid>" CACHE STRING
  "Who answers for the packages: name <address>")

set(CPACK_PACKAGE_NAME sdp4bit)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGE_VENDOR "sdp4bit")
set(CPACK_PACKAGE_CONTACT ${SDP4BIT_MAINTAINER})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
# An archive for older drivers says so by its name.
set(archive_suffix ${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
if(CUDAToolkit_VERSION_MAJOR LESS 13)
  string(APPEND archive_suffix -cuda${CUDAToolkit_VERSION_MAJOR})
endif()
set(CPACK_PACKAGE_FILE_NAME sdp4bit-${archive_suffix})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_GENERATOR TGZ)
set(CPACK_VERBATIM_VARIABLES ON)
# Neither the builder's umask nor a further build gets in.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_PRODUCT_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
set(CPACK_ARCHIVE_EMULATOR_FILE_NAME sdp4bit-emulator-${archive_suffix})

set(archive_components runtime development tools documentation)
set(debian_components debian-runtime debian-development debian-tools debian-documentation debian-files)
if(SDP4BIT_BUILD_SANDBOX)
  list(APPEND archive_components emulator)
  list(APPEND debian_components debian-emulator)
endif()

# Debian's folder for libraries has the machine's name in it; its documentation is compressed, and there is more of it.
find_program(GZIP_PROGRAM gzip)
find_program(DPKG_PROGRAM dpkg)
if(GZIP_PROGRAM AND DPKG_PROGRAM AND CMAKE_LIBRARY_ARCHITECTURE)
  set(debian_libdir lib/${CMAKE_LIBRARY_ARCHITECTURE})
  sdp4bit_install(debian- ${debian_libdir} EXCLUDE_FROM_ALL)
  string(TIMESTAMP SDP4BIT_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
  configure_file(packaging/debian/changelog.in ${CMAKE_BINARY_DIR}/packaging/changelog @ONLY)

  # sdp4bit_install_compressed(FILE DESTINATION NAME COMPONENT)
  function(sdp4bit_install_compressed file destination name component)
    set(compressed ${CMAKE_BINARY_DIR}/packaging/${component}/${name})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/packaging/${component})
    execute_process(COMMAND ${GZIP_PROGRAM} -9nc ${file} OUTPUT_FILE ${compressed} COMMAND_ERROR_IS_FATAL ANY)
    install(FILES ${compressed} DESTINATION ${destination} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endfunction()
  # sdp4bit_install_for_debian(PACKAGE COMPONENT MANUAL)
  function(sdp4bit_install_for_debian package component manual)
    install(FILES packaging/debian/copyright DESTINATION share/doc/${package}
      COMPONENT ${component} EXCLUDE_FROM_ALL)
    install(FILES packaging/debian/${package}.lintian-overrides RENAME ${package}
      DESTINATION share/lintian/overrides COMPONENT ${component} EXCLUDE_FROM_ALL)
    sdp4bit_install_compressed(${CMAKE_BINARY_DIR}/packaging/changelog share/doc/${package} changelog.Debian.gz
      ${component})
    sdp4bit_install_compressed(${manual} share/man/man1 ${package}.1.gz ${component})
  endfunction()
  sdp4bit_install_for_debian(sdp4bit debian-files ${CMAKE_BINARY_DIR}/packaging/debian-sdp4bit.1)
  if(SDP4BIT_BUILD_SANDBOX)
    sdp4bit_install_emulator(debian- ${debian_libdir})
    # Nobody debugs the emulated cluster by its package.
    install(CODE "file(GLOB files \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${debian_libdir}/sdp4bit/emulator/*\")
      execute_process(COMMAND \"${CMAKE_STRIP}\" \${files} COMMAND_ERROR_IS_FATAL ANY)"
      COMPONENT debian-emulator EXCLUDE_FROM_ALL)
    sdp4bit_install_for_debian(sdp4bit-emulator debian-emulator ${CMAKE_BINARY_DIR}/packaging/sdp4bit-emulator.1)
  endif()
  list(APPEND CPACK_GENERATOR DEB)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib ${PROJECT_BINARY_DIR}/sandbox/lib)
set(CPACK_DEBIAN_PRODUCT_PACKAGE_NAME sdp4bit)
set(CPACK_DEBIAN_PRODUCT_DEBUGINFO_PACKAGE ON)
set(CPACK_DEBIAN_PRODUCT_PACKAGE_RECOMMENDS "python3 (>= 3.9)")
set(CPACK_DEBIAN_PRODUCT_PACKAGE_SUGGESTS sdp4bit-emulator)
set(CPACK_DEBIAN_PRODUCT_PACKAGE_CONTROL_EXTRA "")
foreach(file IN ITEMS postinst postrm prerm triggers)
  list(APPEND CPACK_DEBIAN_PRODUCT_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/${file})
endforeach()
set(CPACK_DEBIAN_PRODUCT_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_EMULATOR_PACKAGE_NAME sdp4bit-emulator)
set(CPACK_DEBIAN_EMULATOR_PACKAGE_SECTION devel)
# The first line is the short one.
set(CPACK_DEBIAN_PRODUCT_DESCRIPTION "4-bit collectives for sharded data-parallel training
libsdp4bit.so is preloaded into an unmodified multi-GPU training job between
nodes. It takes the place of NCCL's ReduceScatter and AllGather, sends 4-bit
payloads instead of 16- or 32-bit ones, and leaves everything else to NCCL.

Nothing is preloaded by installing this package; programs are, by
LD_PRELOAD=libsdp4bit.so or the command sdp4bit.")
set(CPACK_DEBIAN_EMULATOR_DESCRIPTION "emulated GPU cluster to try sdp4bit without GPUs
Stand-ins for the CUDA runtime and NCCL that run nvcc-built programs on a
CPU, play several nodes, and count the bytes between them; sdp4bit linked to
them, and a program that measures collectives. They are in a folder of their
own, which only the command sdp4bit-emulator uses.")

set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_BINARY_DIR}/packaging/per_generator.cmake)
file(CONFIGURE OUTPUT ${CPACK_PROJECT_CONFIG_FILE} @ONLY CONTENT [[
# Which components make the packages of this generator.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_COMPONENTS_ALL @debian_components@)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package's description brings its own
  set(CPACK_STRIP_FILES OFF)  # the debugging information goes into a package of its own
else()
  set(CPACK_COMPONENTS_ALL @archive_components@)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
]])
include(CPack)
foreach(component IN LISTS archive_components debian_components)
  if(component MATCHES "emulator$")
    cpack_add_component(${component} GROUP emulator)
  else()
    cpack_add_component(${component} GROUP product)
  endif()
endforeach()
cpack_add_component_group(product)
cpack_add_component_group(emulator)
