#!/bin/sh
# LD_AUDIT, dlmopen, vfork, popen.
. "$(dirname "$0")/lib.sh"
need cc
cc -w -shared -fPIC -D_GNU_SOURCE "$here/audit.c" -o audit.so
cc -w -O1 -fno-builtin -pthread -D_GNU_SOURCE "$here/loading.c" -o loading -ldl
./loading
LD_AUDIT=$work/audit.so ./loading
