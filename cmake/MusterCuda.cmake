# MUSTER_CUDA: whether libtorch has CUDA and there is a compiler for it. Modules choose their files by it: cuda_x.cpp, or
# no_cuda_x.cpp with the same functions. MUSTER_NCCL_LIBRARY and MUSTER_NCCL_INCLUDE_DIR: the NCCL that libtorch is
# linked with, where its header is at hand.
include_guard()

set(MUSTER_CUDA OFF)
set(MUSTER_CUDA_ARCHITECTURES 90 CACHE STRING "GPUs to make kernels for, as CUDA_ARCHITECTURES")
if((TARGET torch_cuda OR TORCH_CUDA_LIBRARIES) AND Torch_VERSION AND Torch_VERSION VERSION_LESS 2.4)
  message(STATUS "libtorch ${Torch_VERSION} records steps in an older way: muster trains on the CPU; take 2.4 or newer")
elseif(TARGET torch_cuda OR TORCH_CUDA_LIBRARIES)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES ${MUSTER_CUDA_ARCHITECTURES})
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(MUSTER_CUDA ON)
    # A wheel's libtorch has it in a folder beside its own.
    find_path(MUSTER_NCCL_INCLUDE_DIR nccl.h HINTS "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include")
    find_library(MUSTER_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/lib")
    mark_as_advanced(MUSTER_NCCL_INCLUDE_DIR MUSTER_NCCL_LIBRARY)
    if(MUSTER_NCCL_INCLUDE_DIR AND MUSTER_NCCL_LIBRARY)
      message(STATUS "GPUs of several tasks sum over ${MUSTER_NCCL_LIBRARY}")
    else()
      message(STATUS "there is no NCCL, or no nccl.h: GPUs of several tasks sum on the CPU")
    endif()
  else()
    message(STATUS "libtorch has CUDA, but there is no nvcc: muster trains on the CPU")
  endif()
endif()

# muster_cuda_library(TARGET SOURCES...): kernels, which see no libtorch: nvcc takes neither its flags nor ours.
function(muster_cuda_library target)
  add_library(${target} STATIC ${ARGN})
  set_target_properties(${target} PROPERTIES
    CUDA_ARCHITECTURES "${MUSTER_CUDA_ARCHITECTURES}" CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
    CUDA_RUNTIME_LIBRARY Shared POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC CUDA::cudart)
  install(TARGETS ${target} EXPORT muster_targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()
