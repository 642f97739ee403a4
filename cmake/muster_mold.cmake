# Programs that link muster::muster are linked by mold where it is installed: in less than a second, where ld takes four. A
# linker that the project names goes before; -DMUSTER_MOLD=OFF leaves the linker alone.
find_program(MUSTER_MOLD mold)
mark_as_advanced(MUSTER_MOLD)
if(NOT MUSTER_MOLD OR CMAKE_CROSSCOMPILING OR CMAKE_LINKER_TYPE OR CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld")
  return()
endif()
# g++ takes the flag since 12.1.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1)
  return()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$")
  set_property(TARGET muster::muster APPEND PROPERTY INTERFACE_LINK_OPTIONS -fuse-ld=mold)
endif()
