// The part of HIP that a host compiler can take: kernels are functions.
#pragma once

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

struct hipDeviceIndex {
  unsigned x = 0, y = 0, z = 0;
};
inline thread_local hipDeviceIndex threadIdx, blockIdx;

using hipError_t = int;
constexpr hipError_t hipSuccess = 0;
