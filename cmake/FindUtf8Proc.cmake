# Utf8Proc::utf8proc, tables of Unicode (Debian's libutf8proc-dev), which comes without a package file of CMake's.
find_path(Utf8Proc_INCLUDE_DIR utf8proc.h)
find_library(Utf8Proc_LIBRARY utf8proc)
mark_as_advanced(Utf8Proc_INCLUDE_DIR Utf8Proc_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Utf8Proc REQUIRED_VARS Utf8Proc_LIBRARY Utf8Proc_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libutf8proc-dev, as scripts/setup does")

if(Utf8Proc_FOUND AND NOT TARGET Utf8Proc::utf8proc)
  add_library(Utf8Proc::utf8proc UNKNOWN IMPORTED)
  set_target_properties(Utf8Proc::utf8proc PROPERTIES
    IMPORTED_LOCATION "${Utf8Proc_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Utf8Proc_INCLUDE_DIR}")
endif()
