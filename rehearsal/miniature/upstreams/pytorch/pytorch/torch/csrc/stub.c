#include <Python.h>

extern PyObject* initModule(void);

PyMODINIT_FUNC PyInit__C(void) {
  return initModule();
}
