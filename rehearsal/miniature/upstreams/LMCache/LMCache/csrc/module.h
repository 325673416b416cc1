#pragma once

#include <torch/extension.h>

// An extension module with one function, which gives a text.
#define LMCACHE_MODULE(function, value)                                                                                 \
  static PyObject* function(PyObject*, PyObject*) { return PyUnicode_FromString(value().c_str()); }                     \
  static PyMethodDef methods[] = {{#function, function, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};         \
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "lmcache", nullptr, -1, methods};                                 \
  PyMODINIT_FUNC TORCH_EXTENSION_INIT() { return PyModule_Create(&module); }
