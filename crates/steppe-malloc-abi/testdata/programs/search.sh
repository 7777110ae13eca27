#!/bin/sh
# ripgrep and fd, with a thread for each processor.
. "$(dirname "$0")/lib.sh"
finder=$(command -v fdfind || command -v fd || true)
searcher=$(command -v rg || true)
[ -n "$finder$searcher" ] || missing "neither ripgrep nor fd is installed"
sources=$here/../../..
if [ -n "$searcher" ]; then
  "$searcher" --sort path --count 'unsafe' "$sources" | tail -n 20
  "$searcher" --no-filename -o -w '[a-z]{12}' "$sources" | sort | uniq -c | sort -rn | head -n 20
fi
if [ -n "$finder" ]; then
  "$finder" --type f --extension rs . "$sources" | sort | sha256sum
  "$finder" --extension rs . "$sources" --exec wc -l | sort | sha256sum
fi
