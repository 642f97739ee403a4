# muster_module(NAME [TORCH] [AS_USERS] HEADERS ... FOLDERS ... SOURCES ... TESTS ... TEST_DEPS DEPS ... PRIVATE_DEPS ...)
#
# The folder of a CMakeLists.txt under muster/ is one library target, muster::NAME. DEPS are what its headers need, PRIVATE_DEPS
# what only its sources need. FOLDERS are those inside it, in the order in which they include each other; those with a
# comma between them do not at all (scripts/check-includes looks). All TESTS of a module make one program, NAME_test,
# with GoogleTest's headers precompiled. A module with TORCH links libtorch and shares its
# precompiled headers. Of HEADERS, those that a user's program can reach are installed. AS_USERS: the preset
# of the tests, too, compiles it as users do, since all others stand on what it reads, or it has loops that take time.
include_guard()

# Installed headers: the front door, muster/muster.h and each module's api.h, and all that these include. Other headers
# are for muster's own modules.
function(muster_reach_headers header)
  get_property(reached GLOBAL PROPERTY MUSTER_PUBLIC_HEADERS)
  if(header IN_LIST reached)
    return()
  endif()
  if(header MATCHES "_internal\\.h$")
    message(FATAL_ERROR "${header} is installed, and named as one that is private to its library")
  endif()
  set_property(GLOBAL APPEND PROPERTY MUSTER_PUBLIC_HEADERS "${header}")
  file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" includes REGEX "^#include \"muster/")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "^#include \"(.*)\".*" "\\1" next "${line}")
    muster_reach_headers("${next}")
  endforeach()
endfunction()
file(GLOB muster_front_doors RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/muster/*/api.h")
foreach(header muster/muster.h muster/nn/zoo.h ${muster_front_doors})
  muster_reach_headers("${header}")
endforeach()

# Unity builds: the sources of a target are compiled several at a time, which saves what each of them pays for
# libtorch's templates (2.7 s a source with g++ 12). Names in unnamed namespaces are therefore unique in a module.
option(MUSTER_UNITY "Compile the sources of a module several at a time" OFF)
set(MUSTER_UNITY_BATCH 40 CACHE STRING "Sources that MUSTER_UNITY compiles at a time")
set(MUSTER_UNITY_EXCEPT "" CACHE STRING "Modules that MUSTER_UNITY compiles source by source, for those who change them")
function(muster_unity target module)
  if(MUSTER_UNITY AND NOT module IN_LIST MUSTER_UNITY_EXCEPT)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${MUSTER_UNITY_BATCH})
    # g++ takes a source that another includes for a header, whose types may not have members of unnamed namespaces.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Tests are not optimised: that takes much of a build. With MUSTER_CLANG clang compiles them, and libraries and programs
# likewise, in less than half the time (a unit of muster/jobs: 20 s of processor; 41 with -O1; g++ 51 with -O2). As users
# have them, by g++ and optimised, are modules with AS_USERS, among them the one that runs on libtorch's threads, which are
# g++'s OpenMP's, and sources with -O3. scripts/users-compiler has g++ compile the other modules where they changed.
option(MUSTER_CLANG "Compile with clang, where it is installed, and optimise kernels and loops alone" OFF)
if(MUSTER_CLANG AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT MUSTER_SANITIZE)
  find_program(MUSTER_TEST_COMPILER clang++-19)
  mark_as_advanced(MUSTER_TEST_COMPILER)
endif()
# The preset quickstart has clang compile, too, and optimise.
set(MUSTER_CLANG_LEVEL -O0 CACHE STRING "Optimisation of what MUSTER_CLANG has clang compile")
function(muster_compile_as_test target)
  if(NOT MUSTER_TEST_COMPILER)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE ${MUSTER_CLANG_LEVEL})
    set_target_properties(${target} PROPERTIES
      CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/compile_with;${MUSTER_TEST_COMPILER}")
  endif()
endfunction()
# A library or a program that is not of the tests: as tests where the preset has clang, else as the preset says.
function(muster_compile_for_tests target)
  if(MUSTER_TEST_COMPILER)
    muster_compile_as_test(${target})
  endif()
endfunction()
# muster_optimise(TARGET LEVEL): another level than the preset's in what users build.
function(muster_optimise target level)
  if(NOT MUSTER_TEST_COMPILER)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  endif()
endfunction()
# Such a source would run on one thread when clang has compiled it.
function(muster_refuse_threads)
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" calls REGEX "at::parallel_for" LIMIT_COUNT 1)
    if(calls)
      message(FATAL_ERROR "${source} calls at::parallel_for: kernels::parallel_for() is for other modules")
    endif()
  endforeach()
endfunction()

# The headers of test programs, precompiled once for all of them.
set(muster_test_headers <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <filesystem> <fstream> <functional> <map> <memory>
  <optional> <string> <thread> <vector>)
function(muster_test_pch target)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${target}.cpp" CONTENT "// Holds the precompiled headers.\n")
  add_library(${target} OBJECT "${PROJECT_BINARY_DIR}/${target}.cpp")
  target_link_libraries(${target} PRIVATE fmt::fmt GTest::gmock muster_warnings ${ARGN})
  muster_compile_as_test(${target})
endfunction()
if(MUSTER_BUILD_TESTS)
  muster_test_pch(muster_test_headers)
  target_precompile_headers(muster_test_headers PRIVATE ${muster_test_headers})
endif()
# Where libraries are compiled as tests are, they take the headers of these, too: clang reads of them what a source uses.
function(muster_take_headers_of_tests target headers)
  # GoogleTest's definitions are those of the precompiled headers.
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_DEFINITIONS>)
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# muster_module_folder(VARIABLE): the folder of the module that is being described, as includes name it.
function(muster_module_folder variable)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(${variable} "${folder}" PARENT_SCOPE)
endfunction()

# Every public header is also compiled alone, so that including it needs nothing before it: by its own source, which
# includes it first, or by a file made for it. Those of a module with TORCH find libtorch's headers precompiled, or the
# check would take as long as the build.
function(muster_verify_headers name torch)
  muster_module_folder(folder)
  set(checks "")
  foreach(header IN LISTS ARGN)
    string(REGEX REPLACE "\\.h$" ".cpp" own "${CMAKE_CURRENT_SOURCE_DIR}/${header}")
    if(EXISTS "${own}")
      file(STRINGS "${own}" first REGEX "^#include" LIMIT_COUNT 1)
      if(first STREQUAL "#include \"${folder}/${header}\"")
        continue()
      endif()
    endif()
    string(MAKE_C_IDENTIFIER "${header}" id)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/verify_${id}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${folder}/${header}\"\n")
    list(APPEND checks "${source}")
  endforeach()
  if(NOT checks)
    return()
  endif()
  add_library(muster_${name}_verify_headers OBJECT EXCLUDE_FROM_ALL ${checks})
  target_link_libraries(muster_${name}_verify_headers PRIVATE muster_${name} muster_warnings)
  muster_compile_as_test(muster_${name}_verify_headers)
  target_compile_options(muster_${name}_verify_headers PRIVATE -fsyntax-only)
  if(torch)
    muster_take_verify_pch(muster_${name}_verify_headers)
  endif()
  if(NOT TARGET verify_headers)
    add_custom_target(verify_headers)
  endif()
  add_dependencies(verify_headers muster_${name}_verify_headers)
endfunction()

# A test program is one entry of ctest: its cases share what it has loaded or started, libtorch alone half a second, and
# the leak scan of a sanitizer at its end. ctest -R takes programs, and a program takes cases: --gtest_filter='Suite.*'.
function(muster_test target)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_DEPS} muster_warnings GTest::gmock GTest::gtest_main)
  if(arg_TORCH)
    muster_torch_test_program(${target})
  else()
    muster_compile_as_test(${target})
    muster_position_independent(${target})
    target_precompile_headers(${target} REUSE_FROM muster_test_headers)
  endif()
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 1200)
endfunction()

# A program that has every library of others that modules ask for, and nothing of ours: does it link, does it start?
# scripts/check-setup asks where nothing is installed but what a list of scripts/setup names.
function(muster_add_link_check)
  get_property(libraries GLOBAL PROPERTY MUSTER_LIBRARIES)
  list(REMOVE_DUPLICATES libraries)
  list(FILTER libraries EXCLUDE REGEX "muster")
  # Debian's libsentencepiece has symbols of a protobuf of its own: a program where it comes before libprotobuf ends as it starts.
  set(last ${libraries})
  list(FILTER last INCLUDE REGEX "SentencePiece")
  list(FILTER libraries EXCLUDE REGEX "SentencePiece")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/link_check.cpp" CONTENT "int main() {}\n")
  add_executable(link_check EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/link_check.cpp")
  target_link_options(link_check PRIVATE -Wl,--no-as-needed)
  target_link_libraries(link_check PRIVATE ${libraries} $<TARGET_NAME_IF_EXISTS:muster_torch>
    $<TARGET_NAME_IF_EXISTS:GTest::gmock> $<TARGET_NAME_IF_EXISTS:benchmark::benchmark> $<TARGET_NAME_IF_EXISTS:gRPC::grpc++> protobuf::libprotobuf ${last})
  if(MUSTER_TEST_COMPILER)
    # With clang's sanitizers, which are linked with the executor's mutants.
    set(clang "${PROJECT_SOURCE_DIR}/cmake/compile_with;${MUSTER_TEST_COMPILER}")
    add_executable(sanitized_link_check EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/link_check.cpp")
    set_target_properties(sanitized_link_check PROPERTIES CXX_COMPILER_LAUNCHER "${clang}" CXX_LINKER_LAUNCHER "${clang}")
    target_compile_options(sanitized_link_check PRIVATE -fsanitize=address,undefined)
    target_link_options(sanitized_link_check PRIVATE -fsanitize=address,undefined)
  endif()
endfunction()

function(muster_module name)
  cmake_parse_arguments(arg "TORCH;AS_USERS" "" "HEADERS;FOLDERS;SOURCES;TESTS;TEST_DEPS;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target muster_${name})
  muster_module_folder(folder)
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(muster::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  get_property(reached GLOBAL PROPERTY MUSTER_PUBLIC_HEADERS)
  set(public "")
  set(private "")
  foreach(header IN LISTS arg_HEADERS)
    if("${folder}/${header}" IN_LIST reached)
      list(APPEND public "${header}")
    else()
      list(APPEND private "${header}")
    endif()
  endforeach()
  target_sources(${target}
    PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${public}
    PRIVATE FILE_SET private_headers TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${private})
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS} $<BUILD_INTERFACE:muster_warnings>)
  set_property(GLOBAL APPEND PROPERTY MUSTER_LIBRARIES ${arg_DEPS} ${arg_PRIVATE_DEPS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  muster_unity(${target} ${name})
  if(MUSTER_TEST_COMPILER AND NOT arg_AS_USERS)
    muster_compile_as_test(${target})
    muster_refuse_threads(${arg_SOURCES})
  endif()
  if(MUSTER_TESTS_OF)
    # Built where a test that was asked for needs it.
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  set(torch "")
  if(arg_TORCH)
    muster_use_torch(${target})
    set(torch TORCH)
  elseif(MUSTER_TEST_COMPILER AND MUSTER_BUILD_TESTS AND NOT arg_AS_USERS)
    muster_take_headers_of_tests(${target} muster_test_headers)
  endif()
  if(arg_HEADERS)
    muster_verify_headers(${name} "${torch}" ${arg_HEADERS})
  endif()
  install(TARGETS ${target} EXPORT muster_targets FILE_SET HEADERS
          ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  if(MUSTER_BUILD_TESTS AND arg_TESTS AND (NOT MUSTER_TESTS_OF OR name IN_LIST MUSTER_TESTS_OF))
    muster_test(${name}_test ${torch} SOURCES ${arg_TESTS} DEPS muster::${name} muster::testing ${arg_TEST_DEPS} LABELS ${name})
    muster_unity(${name}_test ${name})
  endif()
endfunction()
