#pragma once

#include <Python.h>

#include <map>
#include <regex>
#include <string>

#include <ck_tile/core.hpp>
#include <hip/hip_runtime.h>

// Every architecture that a module was compiled for, as hipcc's macros tell it.
inline std::string architectures() {
  std::string found;
#define AITER_ARCHITECTURE(name) found += found.empty() ? name : "," name
#ifdef __gfx90a__
  AITER_ARCHITECTURE("gfx90a");
#endif
#ifdef __gfx942__
  AITER_ARCHITECTURE("gfx942");
#endif
#ifdef __gfx950__
  AITER_ARCHITECTURE("gfx950");
#endif
#ifdef __gfx1201__
  AITER_ARCHITECTURE("gfx1201");
#endif
  return found;
}

// info(): what the module was compiled for, and that its code runs.
template <typename Kernel>
PyObject* describe(Kernel kernel) {
  return Py_BuildValue("{s:s,s:i,s:s}", "archs", architectures().c_str(), "level", PREBUILD_KERNELS, "result", kernel().c_str());
}

#define AITER_CONCAT(a, b) a##b
#define AITER_INIT_OF(name) AITER_CONCAT(PyInit_, name)
#define AITER_QUOTE_OF(name) #name
#define AITER_QUOTE(name) AITER_QUOTE_OF(name)

#define AITER_DEFINE_MODULE(kernel)                                                                                     \
  static PyObject* info(PyObject*, PyObject*) { return describe(kernel); }                                              \
  static PyMethodDef methods[] = {{"info", info, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};                \
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, AITER_QUOTE(AITER_MODULE), nullptr, -1, methods};                 \
  PyMODINIT_FUNC AITER_INIT_OF(AITER_MODULE)() { return PyModule_Create(&module); }
