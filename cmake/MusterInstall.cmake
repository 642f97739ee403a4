# find_package(muster) for those who use an installed copy.
include_guard()
include(CMakePackageConfigHelpers)

set(folder "${CMAKE_INSTALL_LIBDIR}/cmake/muster")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/muster-config.cmake.in"
  "${PROJECT_BINARY_DIR}/muster-config.cmake" INSTALL_DESTINATION "${folder}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/muster-config-version.cmake" COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/muster-config.cmake" "${PROJECT_BINARY_DIR}/muster-config-version.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindFarmHash.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindNGHTTP2.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindRE2.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindSentencePiece.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindUtf8Proc.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindWebP.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindZstd.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindXGBoost.cmake"
        DESTINATION "${folder}")
# Files by which programs of users compile fast.
if(MUSTER_WITH_TORCH)
  install(FILES "${CMAKE_CURRENT_LIST_DIR}/muster_clang.cmake" "${CMAKE_CURRENT_LIST_DIR}/muster_mold.cmake"
                "${CMAKE_CURRENT_LIST_DIR}/muster_precompiled.cmake"
                "${CMAKE_CURRENT_LIST_DIR}/clang_prelude.h"
                "${CMAKE_CURRENT_LIST_DIR}/clang_bits.h" DESTINATION "${folder}")
  install(PROGRAMS "${CMAKE_CURRENT_LIST_DIR}/compile_with" "${CMAKE_CURRENT_LIST_DIR}/compile_with_clang"
          DESTINATION "${folder}")
endif()
install(EXPORT muster_targets NAMESPACE muster:: DESTINATION "${folder}")

# Manual pages and completions, written by the program itself. A program that runs on another machine cannot be asked.
if(TARGET muster AND NOT CMAKE_CROSSCOMPILING)
  set(pages "${PROJECT_BINARY_DIR}/pages")
  add_custom_command(OUTPUT "${pages}/done"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${pages}/man"
    COMMAND muster man --output "${pages}/man"
    COMMAND muster completion bash > "${pages}/muster"
    COMMAND muster completion zsh > "${pages}/muster.zsh"
    COMMAND muster completion fish > "${pages}/muster.fish"
    COMMAND "${CMAKE_COMMAND}" -E touch "${pages}/done"
    DEPENDS muster VERBATIM COMMENT "Writing manual pages and completions")
  add_custom_target(muster_pages ALL DEPENDS "${pages}/done")
  install(DIRECTORY "${pages}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT programs)
  install(FILES "${pages}/muster" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" COMPONENT programs)
  install(FILES "${pages}/muster.zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/muster" COMPONENT programs)
  install(FILES "${pages}/muster.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT programs)
endif()

install(FILES "${PROJECT_SOURCE_DIR}/packaging/copyright" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/muster" COMPONENT programs)
install(FILES "${PROJECT_SOURCE_DIR}/packaging/copyright" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libmuster-dev")

# scripts/package: Debian packages of the programs and of what one builds against.
set(CPACK_GENERATOR DEB)
# A candidate is older than its release: 1.0.0~rc1.
string(REPLACE "-" "~" CPACK_DEBIAN_PACKAGE_VERSION "${MUSTER_VERSION}")
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/packaging/add_sbom.cmake")
set(CPACK_MUSTER_SOURCE_DIR "${PROJECT_SOURCE_DIR}")
set(CPACK_MUSTER_BINARY_DIR "${PROJECT_BINARY_DIR}")
set(CPACK_PACKAGE_CONTACT "the muster project")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL programs dev)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME muster)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS libopenblas0-pthread)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "Estimators for libtorch: the muster program")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmuster-dev)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Estimators for libtorch: headers, libraries and CMake's files")
# Packages that build projects of `muster new` and that the static libraries are linked with, as scripts/setup names them.
set(CPACK_DEBIAN_DEV_PACKAGE_RECOMMENDS "mold, clang-19")
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "g++, cmake, ninja-build, libtorch-dev, libopenblas0-pthread, libfmt-dev, libsimdjson-dev, \
libprotobuf-dev, protobuf-compiler, libnghttp2-dev, libssl-dev, zlib1g-dev, liblzma-dev, libzstd-dev, libsqlite3-dev, libleveldb-dev, libsnappy-dev, libfarmhash-dev, \
libre2-dev, libjpeg62-turbo-dev, libpng-dev, libwebp-dev, libutf8proc-dev, libsentencepiece-dev, libxgboost-dev, libyaml-cpp-dev, libcurl4-openssl-dev, libpugixml-dev")
include(CPack)
