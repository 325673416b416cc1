#include <torch/extension.h>

#include "ops/nms.h"

static PyObject* nms(PyObject*, PyObject* boxes) {
  const char* text = PyUnicode_AsUTF8(boxes);
  if (text == nullptr) {
    return nullptr;
  }
  auto kept = vision::ops::nms_cpu(text);
#ifdef WITH_HIP
  kept += ";" + vision::ops::nms_gpu(text);
#endif
  return PyUnicode_FromString(kept.c_str());
}

static PyObject* gpu_architectures(PyObject*, PyObject*) {
#ifdef WITH_HIP
  return PyUnicode_FromString(vision::ops::compiled_for().c_str());
#else
  return PyUnicode_FromString("");
#endif
}

static PyMethodDef methods[] = {
    {"nms", nms, METH_O, nullptr},
    {"gpu_architectures", gpu_architectures, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "torchvision._C", nullptr, -1, methods};

PyMODINIT_FUNC TORCH_EXTENSION_INIT() {
  return PyModule_Create(&definition);
}
