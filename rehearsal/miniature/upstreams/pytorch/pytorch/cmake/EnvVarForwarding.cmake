# An environment variable that begins with BUILD_, USE_ or CMAKE_ is the CMake variable of its name.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import os; print(';'.join(n for n in os.environ if n.startswith(('BUILD_', 'USE_', 'CMAKE_'))))"
  OUTPUT_VARIABLE forwarded
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
foreach(name IN LISTS forwarded)
  set(${name} "$ENV{${name}}" CACHE STRING "From the environment" FORCE)
endforeach()
