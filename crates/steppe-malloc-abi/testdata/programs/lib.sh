# shellcheck shell=sh
# Sourced by the scripts beside it. Each runs a program in its working folder, an empty one, and prints what does not
# depend on the allocator. Exit code 77: something is not installed, and the last line on standard error names it.
set -eu
PATH=$PATH:/usr/sbin:/sbin
LC_ALL=C
export PATH LC_ALL
here=$(dirname "$0")
work=$(pwd)

missing() {
  echo "$*" >&2
  exit 77
}

need() {
  for program; do
    command -v "$program" >/dev/null || missing "$program is not installed"
  done
}

# Waits a minute for a command to succeed.
await() {
  looks=0
  until "$@" >/dev/null 2>&1; do
    looks=$((looks + 1))
    if [ $looks -ge 600 ]; then
      echo "in vain: $*" >&2
      return 1
    fi
    sleep 0.1
  done
}

# Servers that refuse root run as nobody then, in a folder that is theirs.
unprivileged() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
  else
    "$@"
  fi
}

# A folder with a short path, for sockets and for nobody.
short_folder() {
  folder=$(mktemp -d /tmp/steppe-malloc.XXXXXX)
  if [ "$(id -u)" = 0 ]; then chown 65534:65534 "$folder"; fi
  # shellcheck disable=SC2064 # expanded now
  trap "end_all; rm -rf $folder" EXIT
}

# Ends what still runs of a script that failed.
end_all() {
  for process in ${server:-}; do kill "$process" 2>/dev/null || true; done
}
