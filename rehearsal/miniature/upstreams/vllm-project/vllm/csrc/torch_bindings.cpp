#include <torch/extension.h>

std::string swap_blocks(const std::string& mapping);
std::string top_tokens(const std::string& scores);

static PyObject* describe(PyObject*, PyObject*) {
  const auto text = swap_blocks("0:3,1:2") + "|" + top_tokens("a=1,b=7,c=3") + "|" + at::native::infer_size("2x3,3");
  return PyUnicode_FromString(text.c_str());
}

static PyMethodDef methods[] = {{"info", describe, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};

PyMODINIT_FUNC PyInit__C() {
  return PyModule_Create(&module);
}
