# Every library that muster stands on, found once.
include_guard()

find_package(fmt REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(Snappy REQUIRED)
find_package(leveldb REQUIRED)
if(MUSTER_BUILD_TESTS OR MUSTER_BUILD_BENCHMARKS)
  find_package(GTest REQUIRED)
endif()
if(MUSTER_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
# Debian's libtorch 1.13, or any newer one that CMAKE_PREFIX_PATH names.
if(MUSTER_WITH_TORCH)
  find_package(FarmHash REQUIRED)
  # Without it, boosted trees say what to install.
  find_package(XGBoost)
  find_package(Torch REQUIRED)
endif()
