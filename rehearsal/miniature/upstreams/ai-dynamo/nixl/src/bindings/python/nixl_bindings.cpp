#include <Python.h>
#include <dlfcn.h>
#include <nixl.h>
#include <ucp/api/ucp.h>

namespace {

PyObject* ucx(PyObject*, PyObject*) {
  return PyUnicode_FromString(ucp_describe());
}

PyObject* serialize(PyObject*, PyObject* text) {
  const char* given = PyUnicode_AsUTF8(text);
  return given ? PyUnicode_FromString(nixl::serialize(given).c_str()) : nullptr;
}

// Loads a plugin from where it is in the wheel, next to the library that this module is linked with.
PyObject* plugin(PyObject*, PyObject* name) {
  const char* given = PyUnicode_AsUTF8(name);
  Dl_info library;
  if (!given || !dladdr(reinterpret_cast<void*>(&ucp_describe), &library)) {
    return nullptr;
  }
  const auto path = nixl::plugin_path(library.dli_fname, given);
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded) {
    return PyErr_Format(PyExc_OSError, "%s", dlerror());
  }
  return PyUnicode_FromString(reinterpret_cast<const char* (*)()>(dlsym(loaded, "nixl_plugin_describe"))());
}

PyMethodDef methods[] = {
    {"ucx", ucx, METH_NOARGS, nullptr},
    {"serialize", serialize, METH_O, nullptr},
    {"plugin", plugin, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "_bindings", nullptr, -1, methods};

} // namespace

PyMODINIT_FUNC PyInit__bindings() {
  return PyModule_Create(&module);
}
