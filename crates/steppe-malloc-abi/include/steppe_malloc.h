/* steppe_malloc.h: functions of libsteppe_malloc beyond malloc and its family.
 *
 * <stdlib.h> and <malloc.h> declare the standard functions. A program that must also run without
 * the library looks these functions up with dlsym(RTLD_DEFAULT, ...).
 *
 * Every function may be called from any thread at any time, but not from a signal handler. */
#ifndef STEPPE_MALLOC_H
#define STEPPE_MALLOC_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the library's version, "major.minor.patch". */
const char *steppe_malloc_version(void);

/* Returns the current profile: "speed", "balanced" or "lean". */
const char *steppe_malloc_profile(void);

/* Changes the profile. Returns 0, or -1 with errno = EINVAL for an unknown name. Running threads
 * keep the sizes of their caches until they end; the decay time changes at once. */
int steppe_malloc_set_profile(const char *name);

/* Returns free memory to the system now. Returns 1 if any was returned, else 0. */
int steppe_malloc_trim(void);

/* For an event loop that is about to sleep: empties the cache of this thread, and returns memory
 * whose decay time has passed to the system. Cheap if there is nothing to do. */
void steppe_malloc_on_idle(void);

/* Sets the most bytes that the allocator may hold; 0 removes the limit. A request that would pass it purges free
 * memory first, and then fails with ENOMEM. Held are 64 KiB for each started unit of small and medium blocks, whole
 * blocks above 1 MiB (touched or not), free memory until it is purged, and the allocator's records: held_bytes below.
 * Stacks, libraries and mappings of the program are not counted. */
void steppe_malloc_set_limit(size_t bytes);

/* Sets the number of held bytes above which all free memory is returned to the system at once; 0 removes it. Above it,
 * this happens again after growth by an eighth. */
void steppe_malloc_set_soft_limit(size_t bytes);

/* Sets a watermark: once more than `bytes` are held, 1 is written to the eventfd(2), once. Set it again to hear of it
 * again; 0 bytes removes it. The program keeps the descriptor open until then. The child of a fork has no
 * watermark. Returns 0, or -1 with errno = EBADF. */
int steppe_malloc_set_watermark(size_t bytes, int eventfd);

/* Returns 1 if the pointer points into memory of this allocator, else 0. */
int steppe_malloc_owns(const void *pointer);

/* Statistics of the process. Later versions only append fields. */
struct steppe_malloc_stats {
  size_t live_bytes;        /* in allocated blocks, rounded up to their size class */
  size_t dirty_bytes;       /* free and resident: returned to the system after the decay time */
  size_t retained_bytes;    /* free and resident inside slabs and caches in use */
  size_t mapped_bytes;      /* address space mapped from the system */
  size_t huge_bytes;        /* part of live_bytes: blocks with their own mapping */
  size_t mapped_bytes_peak; /* maximum of mapped_bytes so far */
  size_t held_bytes;        /* resident, or may become so without a further request: what limits count */
};

/* Fills in at most stats_bytes (the sizeof) of *stats, and returns the number of bytes filled in:
 * fewer than stats_bytes if the program was compiled for a later version of the library. */
size_t steppe_malloc_stats(struct steppe_malloc_stats *stats, size_t stats_bytes);

/* Writes all statistics as one JSON object: to a callback, in pieces without a terminating 0; to a
 * stream; to a file descriptor. Returns 0, or -1 with errno. Only the stream may allocate. */
int steppe_malloc_stats_json(void (*sink)(void *context, const char *text, size_t len),
                             void *context);
int steppe_malloc_stats_json_file(FILE *stream);
int steppe_malloc_stats_json_fd(int descriptor);

/* Heap profile: live bytes by call path, from a sample of one block per mean_bytes allocated bytes
 * on average; 0 selects the default, 512 KiB. Blocks allocated before the start are not included.
 * jeprof and `go tool pprof` read the file; "%p" in its path is replaced by the process ID. Return
 * 0, or -1 if stacks can't be walked or the file can't be written. */
int steppe_malloc_heap_profile_start(size_t mean_bytes);
void steppe_malloc_heap_profile_stop(void);
int steppe_malloc_heap_profile_write(const char *path);

#ifdef __cplusplus
}
#endif

#endif
