#pragma once

// What an extension module includes: Python's and PyTorch's own.
#include <Python.h>
#include <torch/torch.h>

// PyInit_x of -DTORCH_EXTENSION_NAME=x: PyMODINIT_FUNC TORCH_EXTENSION_INIT() { return PyModule_Create(&module); }
#define TORCH_EXTENSION_CONCAT(a, b) a##b
#define TORCH_EXTENSION_INIT_OF(name) TORCH_EXTENSION_CONCAT(PyInit_, name)
#define TORCH_EXTENSION_INIT TORCH_EXTENSION_INIT_OF(TORCH_EXTENSION_NAME)
