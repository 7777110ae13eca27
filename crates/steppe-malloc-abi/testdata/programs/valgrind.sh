#!/bin/sh
# Each tool brings an allocator of its own, and the program must do the same all the same.
. "$(dirname "$0")/lib.sh"
need valgrind
for tool in memcheck massif dhat drd helgrind; do
  case $tool in
    massif | dhat) out=--$tool-out-file=out ;;
    *) out= ;;
  esac
  for program in 'ls /usr/include' 'sort /etc/passwd' 'grep -c root /etc/passwd' 'sh -c "exit 3"'; do
    code=0
    # shellcheck disable=SC2086 # no word, or one
    eval valgrind --quiet --tool=$tool --log-file=log $out "$program" >said || code=$?
    echo "$tool: $program: $code $(sha256sum <said)"
  done
done
