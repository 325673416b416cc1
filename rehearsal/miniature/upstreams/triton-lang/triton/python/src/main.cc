#include <Python.h>

#include "ir.h"

static PyObject *run_passes(PyObject *, PyObject *source) {
  const char *text = PyUnicode_AsUTF8(source);
  return text ? PyUnicode_FromString(triton::run_passes(triton::parse(text)).c_str()) : nullptr;
}

static PyMethodDef methods[] = {{"run_passes", run_passes, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "libtriton", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_libtriton() {
  PyObject *module = PyModule_Create(&definition);
  PyModule_AddStringConstant(module, "version", TRITON_VERSION);
  PyModule_AddStringConstant(module, "backends", TRITON_BACKENDS);
  return module;
}
