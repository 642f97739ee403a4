# XGBoost::xgboost, gradient boosted trees (Debian's libxgboost-dev, whose own package file names a folder that is not
# there).
find_path(XGBoost_INCLUDE_DIR xgboost/c_api.h)
find_library(XGBoost_LIBRARY xgboost)
mark_as_advanced(XGBoost_INCLUDE_DIR XGBoost_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XGBoost REQUIRED_VARS XGBoost_LIBRARY XGBoost_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "boosted trees are left out, install libxgboost-dev for them, as scripts/setup does")

if(XGBoost_FOUND AND NOT TARGET XGBoost::xgboost)
  add_library(XGBoost::xgboost UNKNOWN IMPORTED)
  set_target_properties(XGBoost::xgboost PROPERTIES
    IMPORTED_LOCATION "${XGBoost_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${XGBoost_INCLUDE_DIR}")
endif()
