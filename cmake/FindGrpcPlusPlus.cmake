# gRPC::grpc++, the library alone (Debian's libgrpc++-dev). gRPC's own package file ends the configuration with an error
# where its code generator is not installed, which nothing here runs.
find_path(GRPCPLUSPLUS_INCLUDE_DIR grpcpp/grpcpp.h)
foreach(library grpc++ grpc gpr absl_synchronization)
  string(MAKE_C_IDENTIFIER "GRPCPLUSPLUS_${library}" variable)
  find_library(${variable} ${library})
  list(APPEND grpcplusplus_libraries ${variable})
endforeach()
mark_as_advanced(GRPCPLUSPLUS_INCLUDE_DIR ${grpcplusplus_libraries})

# A gRPC of another make wants more libraries than these, and nothing else may fail for that.
include(CheckCXXSourceCompiles)
if(GRPCPLUSPLUS_INCLUDE_DIR)
  set(CMAKE_REQUIRED_INCLUDES "${GRPCPLUSPLUS_INCLUDE_DIR}")
  foreach(variable IN LISTS grpcplusplus_libraries)
    list(APPEND CMAKE_REQUIRED_LIBRARIES "${${variable}}")
  endforeach()
  check_cxx_source_compiles("#include <grpc/grpc.h>\nint main() { grpc_init(); }" GRPCPLUSPLUS_LINKS)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(GrpcPlusPlus
  REQUIRED_VARS ${grpcplusplus_libraries} GRPCPLUSPLUS_INCLUDE_DIR GRPCPLUSPLUS_LINKS
  REASON_FAILURE_MESSAGE "install libgrpc++-dev, as scripts/setup does")

if(GrpcPlusPlus_FOUND AND NOT TARGET gRPC::grpc++)
  add_library(gRPC::grpc++ INTERFACE IMPORTED)
  target_include_directories(gRPC::grpc++ INTERFACE "${GRPCPLUSPLUS_INCLUDE_DIR}")
  foreach(variable IN LISTS grpcplusplus_libraries)
    target_link_libraries(gRPC::grpc++ INTERFACE "${${variable}}")
  endforeach()
endif()
