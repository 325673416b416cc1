# find_package(Torch) of those who build on PyTorch with CMake; the folder is torch.utils.cmake_prefix_path's.
get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(TORCH_INCLUDE_DIRS ${TORCH_INSTALL_PREFIX}/include)
set(TORCH_CXX_FLAGS "")

if(NOT TARGET torch)
  foreach(name torch_cpu torch_hip)
    add_library(${name} SHARED IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${TORCH_INSTALL_PREFIX}/lib/lib${name}.so)
  endforeach()
  add_library(torch INTERFACE IMPORTED)
  set_target_properties(torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${TORCH_INCLUDE_DIRS}
    INTERFACE_LINK_LIBRARIES "torch_cpu;torch_hip")
endif()
set(TORCH_LIBRARIES torch)
find_library(TORCH_LIBRARY torch_cpu HINTS ${TORCH_INSTALL_PREFIX}/lib REQUIRED NO_DEFAULT_PATH)
set(TORCH_FOUND TRUE)
