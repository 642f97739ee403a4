# MUSTER_CLANG: a project has clang compile the sources that use its precompiled headers, where clang is installed. The
# preset dev of projects of `muster new` asks for it; g++ stays the compiler that CMake knows, and that links.
option(MUSTER_CLANG "Compile sources that use precompiled headers with clang, where it is installed" OFF)
if(MUSTER_CLANG AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT CMAKE_CROSSCOMPILING AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  function(muster_clang_is_new_enough result candidate)
    execute_process(COMMAND "${candidate}" -dumpversion OUTPUT_VARIABLE version ERROR_QUIET)
    if(NOT version VERSION_GREATER_EQUAL 19)
      set(${result} FALSE PARENT_SCOPE)
    endif()
  endfunction()
  # Versions from Debian's 19 on were tried.
  find_program(MUSTER_CLANG_COMPILER NAMES clang++-19 clang++ clang++-20 clang++-21 VALIDATOR muster_clang_is_new_enough)
  mark_as_advanced(MUSTER_CLANG_COMPILER)
  if(MUSTER_CLANG_COMPILER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/compile_with_clang;${MUSTER_CLANG_COMPILER}")
  else()
    message(STATUS "clang 19 is not installed: g++ compiles, four times as long for a changed source")
  endif()
endif()
