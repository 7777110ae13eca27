/* A second C library in a namespace of its own, children that share memory, and pipes. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef char *duplicate(const char *);
typedef void release(void *);

static void *grow(void *unused) {
  for (int i = 0; i < 20000; i++) free(malloc((size_t)(i % 5000)));
  return unused;
}

int main(void) {
  /* Blocks of the namespace are its own. */
  void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
  if (other == NULL) return puts(dlerror()), 1;
  duplicate *their_strdup = (duplicate *)dlsym(other, "strdup");
  release *their_free = (release *)dlsym(other, "free");
  for (int i = 0; i < 1000; i++) {
    char *text = their_strdup("in a namespace of its own");
    if (strlen(text) != 25) return 2;
    their_free(text);
  }
  void *maths = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_LAZY);
  printf("%d\n", maths != NULL && dlclose(maths) == 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, grow, NULL);
  char *kept[2000];
  for (int i = 0; i < 2000; i++) memset(kept[i] = malloc(10000), i, 10000);
  for (int round = 0; round < 50; round++) {
    pid_t pid = vfork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
      _exit(9);
    }
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 3) return 4;
    char line[100] = "";
    FILE *pipe = popen("echo $((6 * 7))", "r");
    if (pipe == NULL || fgets(line, sizeof line, pipe) == NULL || atoi(line) != 42 || pclose(pipe) != 0) return 5;
  }
  for (int i = 0; i < 2000; i++) free(kept[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  printf("%d\n", system("exit 5") >> 8);
  return 0;
}
