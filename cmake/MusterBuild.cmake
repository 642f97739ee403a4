# Language, output folders and warnings, the same for every target.
include_guard()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# Installed files belong to libmuster-dev, except for the programs.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
include(GNUInstallDirs)
find_package(Threads REQUIRED)

# Our targets link this one; users of an installed muster do not get its flags.
add_library(muster_warnings INTERFACE)
target_compile_options(muster_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(MUSTER_WARNINGS_AS_ERRORS)
  # These follow values through inlined code, and g++ is known to be wrong about some of them when it optimises.
  target_compile_options(muster_warnings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(muster_warnings INTERFACE -Wno-error=array-bounds -Wno-error=restrict
      -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=maybe-uninitialized -Wno-error=free-nonheap-object)
  else()
    # clang finds them in libstdc++'s own algorithms.
    target_compile_options(muster_warnings INTERFACE -Wno-error=deprecated-declarations)
  endif()
endif()

# Sanitizers by name: MUSTER_SANITIZE="address,undefined" or "thread".
set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers to build with, separated by commas")
if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
endif()

# Precompiled headers fit only sources with the same kind of addresses, and those of libraries are -fPIC.
function(muster_position_independent program)
  set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${program} PRIVATE -fPIC)
endfunction()

# Packages name sources by their place in the project: a build in another folder gives the same bytes.
if(NOT MUSTER_BUILD_TESTS)
  add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=" "-ffile-prefix-map=${PROJECT_BINARY_DIR}/=build/")
endif()

# Links faster than ld, where it is installed.
find_program(MUSTER_MOLD mold)
mark_as_advanced(MUSTER_MOLD)
if(MUSTER_MOLD AND NOT CMAKE_LINKER_TYPE AND NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld")
  add_link_options(-fuse-ld=mold)
endif()

# Compiles nothing twice, where it is installed. Precompiled headers need it to be less strict.
find_program(MUSTER_CCACHE ccache)
mark_as_advanced(MUSTER_CCACHE)
if(MUSTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${MUSTER_CCACHE}")
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
