set(HIP_FOUND TRUE)
set(HIP_COMPILER clang)
file(READ /opt/rocm/.info/version HIP_VERSION)
string(STRIP "${HIP_VERSION}" HIP_VERSION)
if(NOT TARGET hip::host)
  add_library(hip::host INTERFACE IMPORTED)
  set_target_properties(hip::host PROPERTIES INTERFACE_INCLUDE_DIRECTORIES /opt/rocm/include INTERFACE_COMPILE_DEFINITIONS
                                             __HIP_PLATFORM_AMD__=1)
endif()
