# The target muster_precompiled, built only where it is named: muster's and libtorch's headers, precompiled by g++ with the
# flags of this project and kept in the user's cache for all programs that link muster::muster and have no precompiled
# headers of their own. g++ uses them for the sources whose flags they fit, and reads the headers itself for all others.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU OR CMAKE_CROSSCOMPILING OR CMAKE_CONFIGURATION_TYPES OR TARGET muster_precompiled)
  return()
endif()
set(muster_cache "$ENV{XDG_CACHE_HOME}")
if(NOT muster_cache AND NOT "$ENV{HOME}" STREQUAL "")
  set(muster_cache "$ENV{HOME}/.cache")
endif()
if(NOT IS_ABSOLUTE "${muster_cache}")
  return()
endif()

# Another compiler, muster or libtorch has another folder. Times are compared and not ordered: packages replace headers by
# ones that may be older than what was made of the former.
file(GLOB_RECURSE muster_key_files "${MUSTER_INCLUDE_DIR}/muster/*.h")
list(APPEND muster_key_files "${CMAKE_CXX_COMPILER}")
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  list(APPEND muster_key_files "${folder}/torch/version.h" "${folder}/torch/types.h" "${folder}/ATen/ATen.h")
endforeach()
set(muster_key "${CMAKE_CXX_COMPILER_VERSION} ${Torch_VERSION}")
foreach(file IN LISTS muster_key_files)
  file(TIMESTAMP "${file}" time "%s")
  string(APPEND muster_key " ${file} ${time}")
endforeach()
string(SHA256 muster_key "${muster_key}")
string(SUBSTRING "${muster_key}" 0 16 muster_key)

# g++ takes from muster.h.gch/ the one that fits, and without one muster.h, which is empty.
set(muster_precompiled "${muster_cache}/muster/precompiled/${muster_key}/muster.h")
if(EXISTS "${muster_precompiled}")
  set(has_own "$<TARGET_PROPERTY:PRECOMPILE_HEADERS>$<TARGET_PROPERTY:PRECOMPILE_HEADERS_REUSE_FROM>")
  set_property(TARGET muster::muster APPEND PROPERTY INTERFACE_COMPILE_OPTIONS
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<STREQUAL:${has_own},>>:SHELL:-include \"${muster_precompiled}\">")
endif()

string(SHA256 flags "${CMAKE_CXX_FLAGS} ${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}} ${CMAKE_POSITION_INDEPENDENT_CODE}")
string(SUBSTRING "${flags}" 0 16 flags)
file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/muster_precompiled.cpp" CONTENT "// Holds the precompiled headers.\n")
add_library(muster_precompiled_headers OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/muster_precompiled.cpp")
target_link_libraries(muster_precompiled_headers PRIVATE muster::muster)
target_precompile_headers(muster_precompiled_headers PRIVATE <muster/muster.h> <muster/nn/api.h> <torch/types.h>)
set_target_properties(muster_precompiled_headers PROPERTIES DISABLE_PRECOMPILE_HEADERS OFF UNITY_BUILD OFF CXX_COMPILER_LAUNCHER "")
set(made "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/muster_precompiled_headers.dir/cmake_pch.hxx.gch")
add_custom_target(muster_precompiled
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${muster_precompiled}.gch"
  COMMAND mv "${made}" "${muster_precompiled}.gch.${flags}"
  COMMAND mv "${muster_precompiled}.gch.${flags}" "${muster_precompiled}.gch/${flags}.gch"
  COMMAND "${CMAKE_COMMAND}" -E touch "${muster_precompiled}"
  # So that this project uses them, too.
  COMMAND "${CMAKE_COMMAND}" "${CMAKE_BINARY_DIR}"
  VERBATIM COMMENT "Keeping precompiled headers in ${muster_precompiled}.gch")
add_dependencies(muster_precompiled muster_precompiled_headers)
