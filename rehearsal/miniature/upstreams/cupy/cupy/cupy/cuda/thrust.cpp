#include <cupy_module.h>

#include <string>

std::string thrust_architectures();

CUPY_MODULE(thrust, architectures, thrust_architectures)
