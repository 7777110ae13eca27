/* A program that allocates only inside of the C library, and names no function for it. */
#include <unistd.h>

int main(void) { return write(STDOUT_FILENO, "silent\n", 7) == 7 ? 0 : 1; }
