# What people type. `make help` lists it; the work is done by scripts/setup.sh (whatever must happen
# before there is Rust) and by `cargo xtask` (the rest).

# Where rustup puts cargo when scripts/setup.sh has just installed it.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Further arguments, as in `make run ARGS='-c my.toml'`.
ARGS ?=
# Where `make install` puts libsteppe_malloc; a package is made below DESTDIR.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DESTDIR ?=
# How long `make test-all` fuzzes each target.
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help run test test-all soak bench-http bench-malloc bench-dns bench-plane bench-audio soak-audio man deb image lab lab-image install fmt

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

# The dev profile: its optimized dependencies are shared with `make test`, and it links in seconds
# where a release build (fat LTO) takes minutes. `exec`, so that Ctrl-C has one shell less to pass.
run: ## build and start a node on 127.0.0.1:8080 and :8443 (https) with a demo origin
	@scripts/setup.sh run
	@exec cargo run --locked --package steppe -- run $(ARGS)

test: ## everything that a change can break: lints, tests, licenses; ALL=1 for the whole first tier
	@scripts/setup.sh test
	@cargo xtask test $(ARGS)

test-all: ## the whole first tier, the long runs, and FUZZ_SECONDS of fuzzing a target
	@scripts/setup.sh test-all
	@cargo xtask test-all --fuzz-seconds $(FUZZ_SECONDS) $(ARGS)

soak: ## run the lab's scenarios, some three hours; ARGS names some, e.g. ARGS=nginx
	@scripts/setup.sh soak
	@cargo run --locked --package xtask -- soak $(ARGS)

# Every bench takes ARGS='--before PATH': a build of another commit beside this one (bench/README.md).
bench-http: ## the gateway beside nginx and others on this machine
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- http --access-log $(ARGS)

bench-malloc: ## the allocator beside glibc, mimalloc, jemalloc and others on this machine
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- malloc $(ARGS)

bench-dns: ## the DNS forwarder beside unbound, dnsdist, Knot Resolver and dnsmasq
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- dns $(ARGS)

bench-plane: ## the request plane beside tonic, tarpc and NATS
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- plane $(ARGS)

bench-audio: ## @steppe/audio beside decibri, copies, and a pool that the garbage collector gives back
	@scripts/setup.sh bench
	@cd clients/node-audio && npm ci --no-audit --no-fund && npm run build && \
	  npm run build:native -- --release && npm ci --prefix bench/peers --no-audit --no-fund && \
	  npm run bench -- $(or $(ARGS),--svg bench/bench.svg --readme README.md)

soak-audio: ## capture a sound server for an hour under the lab; frames that nothing tells and memory that grows fail
	@scripts/setup.sh soak
	@cargo run --locked --package xtask -- soak audio

man: ## write the manual pages to target/packaging/man
	@scripts/setup.sh run
	@cargo xtask man

deb: ## build a Debian package in target/packaging/deb
	@scripts/setup.sh run
	@cargo xtask deb

image: ## build the image `steppe`: a static binary and nothing else
	@scripts/setup.sh image
	@cargo xtask image

lab: ## build target/packaging/lab/steppe-lab: the lab alone, a static binary
	@scripts/setup.sh image
	@cargo xtask lab

lab-image: ## build the image `steppe-lab`: the lab's static binary and nothing else
	@scripts/setup.sh image
	@cargo xtask lab-image

# In the static library C++'s operators are weak, so that a program may have its own: the linker takes
# an object whole, and ours is one.
malloc_abi := crates/steppe-malloc-abi
malloc_version = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
CARGO_TARGET_DIR ?= target
install: ## install libsteppe_malloc, its header and its .pc; PREFIX=/usr/local DESTDIR=
	@scripts/setup.sh run
	@cargo build --locked --profile release-malloc --package steppe-malloc-abi
	@install -d "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(INCLUDEDIR)"
	@install -m 755 "$(CARGO_TARGET_DIR)/release-malloc/libsteppe_malloc.so" \
	  "$(DESTDIR)$(LIBDIR)/libsteppe_malloc.so.0"
	@ln -sf libsteppe_malloc.so.0 "$(DESTDIR)$(LIBDIR)/libsteppe_malloc.so"
	@objcopy --wildcard --weaken-symbol='_Z*' "$(CARGO_TARGET_DIR)/release-malloc/libsteppe_malloc.a" \
	  "$(DESTDIR)$(LIBDIR)/libsteppe_malloc.a"
	@chmod 644 "$(DESTDIR)$(LIBDIR)/libsteppe_malloc.a"
	@install -m 644 $(malloc_abi)/include/steppe_malloc.h "$(DESTDIR)$(INCLUDEDIR)/"
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	  -e 's|@VERSION@|$(malloc_version)|' $(malloc_abi)/steppe_malloc.pc.in \
	  > "$(DESTDIR)$(LIBDIR)/pkgconfig/steppe_malloc.pc"

fmt: ## format everything
	@scripts/setup.sh run
	@cargo fmt --all
	@cargo fmt --manifest-path fuzz/Cargo.toml
	@cargo fmt --manifest-path bench/malloc-peers/Cargo.toml
