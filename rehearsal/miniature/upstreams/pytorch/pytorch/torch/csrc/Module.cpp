#include <Python.h>
#include <torch/torch.h>

namespace {

// Calls into both libraries, so that an import fails when one of them was not built right.
PyObject* show_config(PyObject*, PyObject*) {
  const auto shape = at::native::infer_size("2x3,3");
  const auto settings = at::describe("Build settings: " TORCH_BUILD_SETTINGS);
  return PyUnicode_FromFormat("%sshape=%s, sorted=%s", settings.c_str(), shape.c_str(), at::native::sort("cab").c_str());
}

PyObject* arch_flags(PyObject*, PyObject*) {
  return PyUnicode_FromString(TORCH_ARCH_FLAGS);
}

PyMethodDef methods[] = {
    {"_show_config", show_config, METH_NOARGS, nullptr},
    {"_cuda_getArchFlags", arch_flags, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "torch._C", nullptr, -1, methods};

} // namespace

extern "C" __attribute__((visibility("default"))) PyObject* initModule() {
  return PyModule_Create(&module);
}
