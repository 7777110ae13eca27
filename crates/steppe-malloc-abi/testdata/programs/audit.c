/* An auditor, which has an allocator of its own namespace's C library. */
#include <link.h>
#include <stdlib.h>
#include <string.h>

static void *kept[1000];
static int count;

unsigned int la_version(unsigned int version) { return version; }

unsigned int la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie) {
  (void)lmid, (void)cookie;
  if (count < 1000) kept[count++] = strdup(map->l_name);
  for (int i = 0; i < 1000; i++) free(malloc((size_t)i * 37));
  return 0;
}
