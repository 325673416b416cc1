#include <torch/extension.h>

std::string paged_attention(const std::string& text);
std::string skinny_gemm();

static PyObject* describe(PyObject*, PyObject*) {
  return Py_BuildValue("{s:s,s:s}", "archs", skinny_gemm().c_str(), "attention", paged_attention("page table").c_str());
}

static PyMethodDef methods[] = {{"info", describe, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_rocm_C", nullptr, -1, methods};

PyMODINIT_FUNC PyInit__rocm_C() {
  return PyModule_Create(&module);
}
