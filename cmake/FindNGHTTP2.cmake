# NGHTTP2::nghttp2, HTTP/2 without sockets (Debian's libnghttp2-dev), which comes without a package file of its own.
find_path(NGHTTP2_INCLUDE_DIR nghttp2/nghttp2.h)
find_library(NGHTTP2_LIBRARY nghttp2)
mark_as_advanced(NGHTTP2_INCLUDE_DIR NGHTTP2_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NGHTTP2 REQUIRED_VARS NGHTTP2_LIBRARY NGHTTP2_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libnghttp2-dev, as scripts/setup does")

if(NGHTTP2_FOUND AND NOT TARGET NGHTTP2::nghttp2)
  add_library(NGHTTP2::nghttp2 UNKNOWN IMPORTED)
  set_target_properties(NGHTTP2::nghttp2 PROPERTIES
    IMPORTED_LOCATION "${NGHTTP2_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NGHTTP2_INCLUDE_DIR}")
endif()
