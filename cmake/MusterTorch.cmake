# muster_torch: what a target links to use libtorch. ${muster_torch_pch} has its slow headers, parsed once for all of
# them (muster_use_torch).
include_guard()

add_library(muster_torch INTERFACE)
add_library(muster::torch ALIAS muster_torch)
set_target_properties(muster_torch PROPERTIES EXPORT_NAME torch)

# libtorch's wheel carries copies of other libraries' headers beside its own, of other versions than those we link. A
# folder that shows the system's copies and nothing else goes before it; naming /usr/include would do nothing, as
# compilers put it last.
set(muster_system_headers "${PROJECT_BINARY_DIR}/system_headers")
function(muster_prefer_system_headers name system_include)
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
    if(EXISTS "${folder}/${name}" AND NOT "${folder}/${name}" PATH_EQUAL "${system_include}/${name}")
      file(MAKE_DIRECTORY "${muster_system_headers}")
      file(CREATE_LINK "${system_include}/${name}" "${muster_system_headers}/${name}" SYMBOLIC)
    endif()
  endforeach()
endfunction()
find_path(MUSTER_FMT_INCLUDE_DIR fmt/core.h PATHS /usr/include NO_DEFAULT_PATH)
mark_as_advanced(MUSTER_FMT_INCLUDE_DIR)
muster_prefer_system_headers(google "${Protobuf_INCLUDE_DIRS}")
muster_prefer_system_headers(fmt "${MUSTER_FMT_INCLUDE_DIR}")
if(EXISTS "${muster_system_headers}")
  target_include_directories(muster_torch SYSTEM BEFORE INTERFACE $<BUILD_INTERFACE:${muster_system_headers}>)
endif()

# A wheel's libtorch also shows parts of the C++ library that were linked into it, of which std::filesystem::remove_all
# was seen to call nothing. The first library that has a symbol wins: the real one goes first.
target_link_libraries(muster_torch INTERFACE stdc++)

# at::parallel_for is a template whose threads are OpenMP's: without the flag it runs on one. The threads must be
# libtorch's, or their number would not be: a wheel brings a runtime of its own.
target_compile_options(muster_torch INTERFACE -fopenmp)
file(GLOB muster_torch_openmp "${TORCH_INSTALL_PREFIX}/lib/libgomp*.so*" "${TORCH_INSTALL_PREFIX}.libs/libgomp*.so*")
if(NOT muster_torch_openmp)
  set(muster_torch_openmp gomp)
endif()
target_link_libraries(muster_torch INTERFACE ${muster_torch_openmp})

# Linked by name, because the folder of an installed libtorch is not part of an installed muster.
target_link_libraries(muster_torch INTERFACE ${TORCH_LIBRARIES})
install(TARGETS muster_torch EXPORT muster_targets)

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/torch_pch.cpp" CONTENT "// Holds the precompiled headers.\n")
set(muster_prelude "")
if(MUSTER_TEST_COMPILER)
  set(muster_prelude "${PROJECT_SOURCE_DIR}/cmake/clang_prelude.h")
endif()
function(muster_make_torch_pch target)
  add_library(${target} OBJECT ${ARGN} "${PROJECT_BINARY_DIR}/torch_pch.cpp")
  target_link_libraries(${target} PRIVATE muster_torch muster_warnings)
  target_precompile_headers(${target} PRIVATE ${muster_prelude} <torch/types.h> <torch/nn/module.h>)
endfunction()
if(MUSTER_BUILD_TESTS)
  muster_test_pch(muster_torch_test_headers muster_torch)
  target_precompile_headers(muster_torch_test_headers PRIVATE ${muster_prelude} <torch/types.h> <torch/nn/module.h> ${muster_test_headers})
endif()
if(MUSTER_BUILD_TESTS AND MUSTER_TEST_COMPILER)
  set(muster_torch_pch muster_torch_test_headers)
else()
  set(muster_torch_pch muster_torch_pch)
  muster_make_torch_pch(muster_torch_pch)
  muster_compile_for_tests(muster_torch_pch)
endif()
function(muster_take_torch_pch target)
  if(muster_torch_pch STREQUAL muster_torch_test_headers)
    muster_take_headers_of_tests(${target} muster_torch_test_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM muster_torch_pch)
  endif()
endfunction()

# Headers that are compiled alone, as tests are compiled: they fit those of libraries where these are, too.
if(NOT MUSTER_TEST_COMPILER)
  muster_make_torch_pch(muster_verify_pch EXCLUDE_FROM_ALL)
  muster_compile_as_test(muster_verify_pch)
endif()
function(muster_take_verify_pch target)
  if(MUSTER_TEST_COMPILER)
    muster_take_torch_pch(${target})
  else()
    target_precompile_headers(${target} REUSE_FROM muster_verify_pch)
  endif()
endfunction()
# muster_torch_test_program(TARGET [HEADERS]): a program of the tests' own, a test or what tests start. HEADERS are those of
# all tests, unless another target of precompiled headers is named.
function(muster_torch_test_program target)
  set(headers muster_torch_test_headers ${ARGN})
  list(GET headers -1 headers)
  muster_compile_as_test(${target})
  muster_position_independent(${target})
  # GoogleTest's definitions are those of the precompiled headers.
  target_link_libraries(${target} PRIVATE muster_torch GTest::gtest)
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# muster_use_torch(TARGET): links libtorch and takes the precompiled headers. A source that sees no libtorch, or
# has flags of its own, sets SKIP_PRECOMPILE_HEADERS.
function(muster_use_torch target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_link_libraries(${target} PRIVATE muster_torch)
    muster_position_independent(${target})
  else()
    target_link_libraries(${target} PUBLIC muster_torch)
  endif()
  muster_take_torch_pch(${target})
endfunction()

# The front door too is precompiled, for examples: clang takes 9 s for a small one, and 4 with it.
if(MUSTER_BUILD_TESTS AND MUSTER_TEST_COMPILER)
  muster_test_pch(muster_front_test_headers muster_torch)
  target_include_directories(muster_front_test_headers PRIVATE "${PROJECT_SOURCE_DIR}")
  target_precompile_headers(muster_front_test_headers PRIVATE ${muster_prelude} <torch/types.h> <torch/nn/module.h>
    ${muster_test_headers} "${PROJECT_SOURCE_DIR}/muster/muster.h" "${PROJECT_SOURCE_DIR}/muster/nn/api.h")
endif()

# muster_torch_program(TARGET UNOPTIMISED [HEADERS]): the same for an example or a benchmark. Unoptimised, it is built as
# tests are, with their HEADERS if these are a target: what it calls is optimised where the preset says so, and its own
# code would cost a minute.
function(muster_torch_program target unoptimised)
  if(unoptimised)
    set(headers ${ARGN})
    if(headers AND NOT TARGET ${headers})
      set(headers "")
    endif()
    muster_torch_test_program(${target} ${headers})
  else()
    muster_use_torch(${target})
    # The precompiled headers are clang's where libraries are.
    muster_compile_for_tests(${target})
  endif()
endfunction()
