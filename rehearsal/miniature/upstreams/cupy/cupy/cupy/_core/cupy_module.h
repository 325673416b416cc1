#pragma once

#include <Python.h>

// An extension module with one function, which gives a text.
#define CUPY_MODULE(name, function, value)                                                                              \
  static PyObject* function(PyObject*, PyObject*) { return PyUnicode_FromString(value().c_str()); }                     \
  static PyMethodDef methods[] = {{#function, function, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};         \
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, #name, nullptr, -1, methods};                                     \
  PyMODINIT_FUNC PyInit_##name() { return PyModule_Create(&module); }

#ifndef CUPY_USE_HIP
#error "this CuPy is for ROCm alone"
#endif
