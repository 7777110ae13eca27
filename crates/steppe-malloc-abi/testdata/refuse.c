/* Stands before the C library's mmap and mremap and refuses what the environment says:
 *   REFUSE_CALL=n       call n alone, counted from 1
 *   REFUSE_FROM=n       call n and all after it
 *   REFUSE_ABOVE=bytes  anything larger
 *   REFUSE_RESERVE=1    reservations: MAP_NORESERVE, or no access
 *   REFUSE_RELEASE=1    munmap and madvise instead, which fail with EAGAIN
 * At its end it says how many calls there were, and how many of them it refused. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long call_count, refused_count;

/* Nothing is refused while the loader is at work: it has no environment yet. */
static long setting(const char *name) {
  extern char **environ;
  const char *value = environ == NULL ? NULL : getenv(name);
  return value == NULL ? 0 : atol(value);
}

static int is_refused(size_t bytes, int protection, int flags) {
  if ((flags & MAP_ANONYMOUS) == 0) return 0;
  long call = atomic_fetch_add(&call_count, 1) + 1;
  long from = setting("REFUSE_FROM"), above = setting("REFUSE_ABOVE");
  int is_reservation = (flags & MAP_NORESERVE) != 0 || protection == PROT_NONE;
  int refused = call == setting("REFUSE_CALL") || (from > 0 && call >= from) ||
                (above > 0 && bytes > (size_t)above) ||
                (setting("REFUSE_RESERVE") != 0 && is_reservation);
  if (!refused) return 0;
  atomic_fetch_add(&refused_count, 1);
  errno = ENOMEM;
  return 1;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (is_refused(bytes, protection, flags)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

#ifdef __GLIBC__
void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  return mmap(at, bytes, protection, flags, file, offset);
}
#endif

void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void *at = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void *) : NULL;
  va_end(rest);
  if (is_refused(bytes, PROT_READ, MAP_ANONYMOUS)) return MAP_FAILED;
  return (void *)syscall(SYS_mremap, old, old_bytes, bytes, flags, at);
}

static int refuses_release(void) {
  if (setting("REFUSE_RELEASE") == 0) return 0;
  atomic_fetch_add(&refused_count, 1);
  errno = EAGAIN;
  return 1;
}

int munmap(void *at, size_t bytes) {
  return refuses_release() ? -1 : (int)syscall(SYS_munmap, at, bytes);
}

int madvise(void *at, size_t bytes, int advice) {
  return refuses_release() ? -1 : (int)syscall(SYS_madvise, at, bytes, advice);
}

__attribute__((destructor)) static void report(void) {
  char text[100];
  int len = snprintf(text, sizeof text, "%ld calls, %ld refused\n", atomic_load(&call_count),
                     atomic_load(&refused_count));
  ssize_t ignored = write(2, text, (size_t)len);
  (void)ignored;
}
