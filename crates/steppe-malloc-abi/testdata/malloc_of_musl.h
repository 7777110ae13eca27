/* Functions of glibc's <malloc.h> that musl's does not declare. */
#ifndef MALLOC_OF_MUSL_H
#define MALLOC_OF_MUSL_H

#ifndef __GLIBC__
#include <stddef.h>
#include <stdio.h>

struct mallinfo {
  int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo mallinfo(void);
struct mallinfo2 mallinfo2(void);
int malloc_trim(size_t pad);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);
int mallopt(int parameter, int value);
void *pvalloc(size_t size);

enum { M_TRIM_THRESHOLD = -1, M_MMAP_THRESHOLD = -3, M_ARENA_MAX = -8, M_MXFAST = 1 };
#endif

#endif
