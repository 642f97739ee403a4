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

include(GNUInstallDirs)
find_package(Threads REQUIRED)

# Our targets link this one; users of an installed muster do not get its flags.
add_library(muster_warnings INTERFACE)
target_compile_options(muster_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(MUSTER_WARNINGS_AS_ERRORS)
  target_compile_options(muster_warnings INTERFACE -Werror)
endif()

# Sanitizers by name: MUSTER_SANITIZE="address,undefined" or "thread".
set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers to build with, separated by commas")
if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
endif()
