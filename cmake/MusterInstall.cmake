# find_package(muster) for those who use an installed copy.
include_guard()
include(CMakePackageConfigHelpers)

set(folder "${CMAKE_INSTALL_LIBDIR}/cmake/muster")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/muster-config.cmake.in"
  "${PROJECT_BINARY_DIR}/muster-config.cmake" INSTALL_DESTINATION "${folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/muster-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/muster-config.cmake" "${PROJECT_BINARY_DIR}/muster-config-version.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindFarmHash.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindXGBoost.cmake"
        DESTINATION "${folder}")
install(EXPORT muster_targets NAMESPACE muster:: DESTINATION "${folder}")
