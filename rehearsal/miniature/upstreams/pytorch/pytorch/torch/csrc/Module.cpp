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

PyObject* is_ck_sdpa_available(PyObject*, PyObject*) {
  return PyBool_FromLong(at::native::ck_sdpa() && at::native::ck_sdpa()("causal=3") == "xxx");
}

PyMethodDef methods[] = {
    {"_show_config", show_config, METH_NOARGS, nullptr},
    {"_cuda_getArchFlags", arch_flags, METH_NOARGS, nullptr},
    {"_is_ck_sdpa_available", is_ck_sdpa_available, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "torch._C", nullptr, -1, methods};

} // namespace

extern "C" __attribute__((visibility("default"))) PyObject* initModule() {
  return PyModule_Create(&definition);
}
