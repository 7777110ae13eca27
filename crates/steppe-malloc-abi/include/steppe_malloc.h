/* steppe_malloc.h: what libsteppe_malloc offers beside malloc and its family.
 *
 * The family itself is declared by <stdlib.h> and <malloc.h>. A program that is to run with and
 * without the library looks these functions up with dlsym(RTLD_DEFAULT, ...).
 *
 * Every function may be called by any thread at any time, but not by a signal handler. */
#ifndef STEPPE_MALLOC_H
#define STEPPE_MALLOC_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "major.minor.patch". */
const char *steppe_malloc_version(void);

/* The profile in force: "speed", "balanced" or "lean". */
const char *steppe_malloc_profile(void);

/* Changes the profile. 0, or -1 with errno = EINVAL when there is none of that name. Threads that
 * are running keep the sizes of their caches until they end; decay changes at once. */
int steppe_malloc_set_profile(const char *name);

/* Gives free memory back to the system now. 1 when any went back, else 0. */
int steppe_malloc_trim(void);

/* For an event loop that is about to sleep: flushes what this thread has cached and not used for a
 * while. Cheap when there is nothing to do. */
void steppe_malloc_on_idle(void);

/* 1 when the pointer leads into memory that this allocator hands out, else 0. */
int steppe_malloc_owns(const void *pointer);

/* Figures of the whole process. Fields are only ever appended. */
struct steppe_malloc_stats {
  size_t live_bytes;        /* handed out, blocks rounded up to their size class */
  size_t dirty_bytes;       /* free and resident: given back when its decay has passed */
  size_t retained_bytes;    /* free and resident inside slabs and caches in use */
  size_t mapped_bytes;      /* address space mapped from the system */
  size_t huge_bytes;        /* of live_bytes: blocks with a mapping of their own */
  size_t mapped_bytes_peak; /* the highest mapped_bytes so far */
};

/* Fills in as much of *stats as stats_bytes (its sizeof) has room for; returns the bytes filled
 * in: fewer than that when the program was compiled for a later library. */
size_t steppe_malloc_stats(struct steppe_malloc_stats *stats, size_t stats_bytes);

/* Writes all figures as one JSON object: to a function, piece by piece and not 0-terminated; to a
 * stream; to a file descriptor. 0, or -1 with errno. Only the stream may allocate. */
int steppe_malloc_stats_json(void (*sink)(void *context, const char *text, size_t len),
                             void *context);
int steppe_malloc_stats_json_file(FILE *stream);
int steppe_malloc_stats_json_fd(int descriptor);

/* A heap profile: which call paths hold how many live bytes, from a sample of one block each
 * mean_bytes on the average; 0 is the usual 512 KiB. Blocks from before the start are not in it. The
 * file is for jeprof and `go tool pprof`; "%p" in its path becomes the process's number. 0, or -1
 * where stacks can't be walked, or the file can't be written. */
int steppe_malloc_heap_profile_start(size_t mean_bytes);
void steppe_malloc_heap_profile_stop(void);
int steppe_malloc_heap_profile_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
