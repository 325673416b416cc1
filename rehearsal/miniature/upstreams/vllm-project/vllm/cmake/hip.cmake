# Adds GPU sources to a target: turned into HIP, and compiled by hipcc for each of PYTORCH_ROCM_ARCH.
find_program(HIPCC hipcc HINTS ${ROCM_PATH}/bin REQUIRED)
set(architectures $ENV{PYTORCH_ROCM_ARCH})
if(NOT architectures)
  message(FATAL_ERROR "PYTORCH_ROCM_ARCH is empty, and there is no GPU to ask")
endif()
list(TRANSFORM architectures PREPEND --offload-arch= OUTPUT_VARIABLE offload_flags)

function(vllm_add_hip_sources target)
  foreach(source ${ARGN})
    cmake_path(GET source STEM name)
    set(hip ${CMAKE_BINARY_DIR}/${name}.hip)
    file(READ ${PROJECT_SOURCE_DIR}/${source} text)
    string(REPLACE "cuda_runtime.h" "hip/hip_runtime.h" text "${text}")
    file(CONFIGURE OUTPUT ${hip} CONTENT "${text}" @ONLY)
    add_custom_command(
      OUTPUT ${hip}.o
      COMMAND ${HIPCC} -c ${hip} -o ${hip}.o -O3 -fPIC -std=c++20 ${offload_flags} -I${TORCH_INCLUDE_DIRS}
      DEPENDS ${PROJECT_SOURCE_DIR}/${source})
    target_sources(${target} PRIVATE ${hip}.o)
  endforeach()
endfunction()
