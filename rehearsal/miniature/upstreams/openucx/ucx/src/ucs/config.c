#include <ctype.h>
#include <string.h>

#include <ucx.h>

/* The names of settings (NAME=value;...), in lower case. */
size_t ucs_config(const char* text, char* result, size_t size) {
  size_t length = 0;
  int in_name = 1;
  for (; *text && length + 1 < size; ++text) {
    if (*text == '=') {
      in_name = 0;
    } else if (*text == ';') {
      in_name = 1;
      result[length++] = ',';
    } else if (in_name) {
      result[length++] = (char)tolower((unsigned char)*text);
    }
  }
  result[length] = 0;
  return length;
}
