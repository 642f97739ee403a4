# muster_table(SOURCE NAME INCLUDE HEADER NAMESPACE NAMESPACE ROW TYPE SUFFIX NAME TABLE FUNCTION NAMES NAME...)
#
# Writes a source with a table that has one row for each of NAMES: FUNCTION() returns a std::vector of what the functions
# NAME_SUFFIX() return, which are defined beside it, usually one in a file. What is to be in the table is named once, in
# the CMakeLists.txt of its module, and nothing hangs on the linker or on static initialisers.
include_guard()

function(muster_table)
  cmake_parse_arguments(arg "" "SOURCE;INCLUDE;NAMESPACE;ROW;SUFFIX;TABLE" "NAMES" ${ARGN})
  set(declarations "")
  set(rows "")
  foreach(name IN LISTS arg_NAMES)
    string(APPEND declarations "${arg_ROW} ${name}_${arg_SUFFIX}();\n")
    string(APPEND rows "  rows.push_back(${name}_${arg_SUFFIX}());\n")
  endforeach()
  list(LENGTH arg_NAMES count)
  file(CONFIGURE OUTPUT "${arg_SOURCE}" CONTENT "// Written by CMake from the list in ${CMAKE_CURRENT_SOURCE_DIR}.
#include <vector>

#include \"${arg_INCLUDE}\"

namespace ${arg_NAMESPACE} {

${declarations}
std::vector<${arg_ROW}> ${arg_TABLE}();

std::vector<${arg_ROW}> ${arg_TABLE}() {
  std::vector<${arg_ROW}> rows;
  rows.reserve(${count});
${rows}  return rows;
}

}  // namespace ${arg_NAMESPACE}
")
endfunction()
