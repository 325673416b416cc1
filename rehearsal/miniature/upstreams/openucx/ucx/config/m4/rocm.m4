dnl Looks for ROCm where --with-rocm says.
AC_DEFUN([UCX_CHECK_ROCM], [
AC_ARG_WITH([rocm], [AS_HELP_STRING([--with-rocm=DIR], [ROCm's folder])], [], [with_rocm=no])
AS_IF([test "x$with_rocm" != xno],
      [AS_IF([test -f "$with_rocm/include/hip/hip_runtime.h"], [],
             [AC_MSG_ERROR([ROCm support is requested but $with_rocm has no headers])])])
AM_CONDITIONAL([HAVE_ROCM], [test "x$with_rocm" != xno])
])
