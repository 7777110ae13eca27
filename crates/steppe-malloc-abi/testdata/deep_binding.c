/* Opens libraries with RTLD_DEEPBIND, by names that only a RUNPATH leads to, from the program, from a library, and from
 * another namespace. argv[1] is `ours` where these libraries are to meet the program's malloc, or `theirs`. */
#include <dlfcn.h>

#include "deep_binding.h"

static int (*owns)(const void *);

static void *open_here(const char *name, int flags) { return dlopen(name, flags); }

static const struct plugin *plugin_of(void *library) {
  if (library == NULL) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != NULL);
  const struct plugin *plugin = (const struct plugin *)dlsym(library, "plugin");
  CHECK(plugin != NULL);
  return plugin;
}

/* Blocks of the plugin that the program grows and frees, and the other way round. */
static void pass_blocks(const struct plugin *plugin, int is_ours) {
  static const size_t sizes[] = {1, 24, 200, 5000, 40000, 300000, 3000000};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *block = (char *)plugin->allocate(sizes[i]);
    CHECK(block != NULL && owns(block) == is_ours);
    paint(block, sizes[i], i);
    block = (char *)realloc(block, sizes[i] * 3);
    CHECK(block != NULL && is_painted(block, sizes[i], i));
    free(block);
    free(plugin->allocate(sizes[i]));
    if (!is_ours) continue;
    block = (char *)malloc(sizes[i]);
    paint(block, sizes[i], i);
    block = (char *)plugin->grow(block, sizes[i] * 3);
    CHECK(block != NULL && is_painted(block, sizes[i], i));
    plugin->release(block);
  }
}

static Lmid_t namespace_of(void *library) {
  Lmid_t id = -1;
  CHECK(dlinfo(library, RTLD_DI_LMID, &id) == 0);
  return id;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const int is_ours = strcmp(argv[1], "ours") == 0;
  owns = (int (*)(const void *))dlsym(RTLD_DEFAULT, "steppe_malloc_owns");
  CHECK(owns != NULL);

  void *outer = open_here("libouter.so", RTLD_NOW | RTLD_DEEPBIND);
  pass_blocks(plugin_of(outer), is_ours);
  /* Only a library that has not met the library's dlopen keeps the flag for what it opens itself. */
  void *inner = plugin_of(outer)->open("libinner.so", RTLD_NOW | RTLD_DEEPBIND);
  pass_blocks(plugin_of(inner), is_ours);
  CHECK(namespace_of(inner) == LM_ID_BASE);

  /* Not found from here: the program has another RUNPATH. */
  CHECK(dlopen("libinner-unopened.so", RTLD_NOW | RTLD_DEEPBIND) == NULL && dlerror() != NULL);

  /* The caller's namespace, though the program's dlopen is called there. */
  void *other = dlmopen(LM_ID_NEWLM, "libouter.so", RTLD_NOW);
  const struct plugin *apart = plugin_of(other);
  CHECK(namespace_of(other) != LM_ID_BASE);
  inner = apart->open_by(dlopen, "libinner.so", RTLD_NOW | RTLD_DEEPBIND);
  CHECK(inner != NULL && namespace_of(inner) == namespace_of(other));
  void *block = apart->allocate(100);
  CHECK(block != NULL && !owns(block));
  apart->release(block);
  return 0;
}
