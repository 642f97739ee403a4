# muster_fuzz_target(NAME [TORCH] [MUTANTS 100000] DEPS ...)
#
# fuzz/NAME_fuzz.cpp defines LLVMFuzzerTestOneInput and muster::fuzz::seeds(). It is the core of one of two programs:
#   NAME_mutation_test   so many seeded mutants of the seeds, in ctest under the label `fuzz`
#   NAME_fuzz            in its place with clang and MUSTER_BUILD_FUZZERS: a libFuzzer target
include_guard()

function(muster_fuzz_target name)
  cmake_parse_arguments(arg "TORCH" "MUTANTS" "DEPS" ${ARGN})
  if(MUSTER_BUILD_TESTS AND NOT MUSTER_BUILD_FUZZERS AND (NOT MUSTER_TESTS_OF OR name IN_LIST MUSTER_TESTS_OF))
    add_executable(${name}_mutation_test ${name}_fuzz.cpp mutation_main.cpp)
    target_link_libraries(${name}_mutation_test PRIVATE ${arg_DEPS} muster_warnings)
    if(arg_TORCH)
      # It has not the precompiled headers that let clang read libtorch's.
      target_compile_options(${name}_mutation_test PRIVATE -O0)
    else()
      muster_compile_as_test(${name}_mutation_test)
    endif()
    if(arg_MUTANTS)
      target_compile_definitions(${name}_mutation_test PRIVATE MUSTER_DEFAULT_MUTANTS=${arg_MUTANTS})
    endif()
    add_test(NAME ${name}_mutation_test COMMAND ${name}_mutation_test)
    set_tests_properties(${name}_mutation_test PROPERTIES LABELS fuzz TIMEOUT 1200)
  endif()
  if(MUSTER_BUILD_FUZZERS)
    if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      message(FATAL_ERROR "MUSTER_BUILD_FUZZERS needs clang: configure with the preset `fuzz`")
    endif()
    add_executable(${name}_fuzz ${name}_fuzz.cpp seed_corpus.cpp)
    target_link_libraries(${name}_fuzz PRIVATE ${arg_DEPS} muster_warnings)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
