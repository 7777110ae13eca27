#!/bin/sh
# The debugger has the library in it, and so has the program that it runs.
. "$(dirname "$0")/lib.sh"
need gdb cc
cat >a.c <<'END'
#include <stdio.h>
#include <stdlib.h>
static int depth(int n) { int *block = malloc(sizeof *block); *block = n; int r = n == 0 ? 0 : 1 + depth(n - 1); free(block); return r; }
int main(void) { printf("%d\n", depth(5)); return 3; }
END
cc -g -O0 a.c -o a
gdb -nx -batch -ex 'set confirm off' -ex 'set debuginfod enabled off' -ex 'break depth if n == 0' -ex run -ex 'backtrace -3' \
  -ex 'print n + 3' -ex 'python print(len([gdb.parse_and_eval("n") for _ in range(10000)]))' -ex 'call (int)depth(2)' \
  -ex delete -ex continue ./a 2>/dev/null |
  grep -v -e '^\[New Thread' -e '^\[Thread' -e 'libthread_db' -e 'Download' | sed -e 's/0x[0-9a-f]*/0x/g' -e 's/Thread 0x.* hit/hit/' -e 's/\[Switching.*//'
