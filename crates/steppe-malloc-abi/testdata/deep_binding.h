/* What a library of deep_binding_plugin.c has for the program. */
#ifndef DEEP_BINDING_H
#define DEEP_BINDING_H

#include "check.h"

struct plugin {
  void *(*allocate)(size_t bytes);
  void *(*grow)(void *block, size_t bytes);
  void (*release)(void *block);
  void *(*open)(const char *name, int flags);
  void *(*open_by)(void *(*opener)(const char *, int), const char *name, int flags);
};

#endif
