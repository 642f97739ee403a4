# FarmHash::farmhash, Google's hash functions (Debian's libfarmhash-dev), which come without a package file of their own.
find_path(FarmHash_INCLUDE_DIR farmhash.h)
find_library(FarmHash_LIBRARY farmhash)
mark_as_advanced(FarmHash_INCLUDE_DIR FarmHash_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FarmHash REQUIRED_VARS FarmHash_LIBRARY FarmHash_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libfarmhash-dev, as scripts/setup does")

if(FarmHash_FOUND AND NOT TARGET FarmHash::farmhash)
  add_library(FarmHash::farmhash UNKNOWN IMPORTED)
  set_target_properties(FarmHash::farmhash PROPERTIES
    IMPORTED_LOCATION "${FarmHash_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${FarmHash_INCLUDE_DIR}")
endif()
