# What is installed where: the library for GPUs, its public header, and a package that find_package(sdp4bit) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS sdp4bit EXPORT sdp4bit LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS sdp4bit_net sdp4bit_profiler LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/sdp4bit/sdp4bit.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sdp4bit)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sdp4bit)
install(EXPORT sdp4bit NAMESPACE sdp4bit:: FILE sdp4bit-config.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/sdp4bit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/sdp4bit-config-version.cmake DESTINATION ${package_dir})
