# Commands for people; `make help` lists them. scripts/setup.sh installs packages and the toolchain,
# and `cargo xtask` does the rest.

# The folder of cargo, right after scripts/setup.sh has installed it.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Further arguments, as in `make run ARGS='-c my.toml'`.
ARGS ?=
# Target folders of `make install` for libsteppe_malloc; a package is staged below DESTDIR.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DESTDIR ?=
# Seconds for which `make test-all` fuzzes each target.
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help run test test-all soak bench-http bench-malloc bench-dns bench-plane bench-audio soak-audio docs man deb image lab lab-image install wheel fmt

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

# The dev profile: its optimized dependencies are shared with `make test`, and it links in seconds
# where a release build (fat LTO) takes minutes. `exec` removes a shell between Ctrl-C and cargo.
run: ## build and start a node on 127.0.0.1:8080 and :8443 (https) with a demo origin
	@scripts/setup.sh run
	@exec cargo run --locked --package steppe -- run $(ARGS)

test: ## run lints, tests and license checks that a change can break; ALL=1 runs the whole first tier
	@scripts/setup.sh test
	@cargo xtask test $(ARGS)

test-all: ## run the first tier, the long tests, and FUZZ_SECONDS of fuzzing for each target
	@scripts/setup.sh test-all
	@cargo xtask test-all --fuzz-seconds $(FUZZ_SECONDS) $(ARGS)

soak: ## run the lab's scenarios, about three hours; ARGS selects some, e.g. ARGS=nginx
	@scripts/setup.sh soak
	@cargo run --locked --package xtask -- soak $(ARGS)

# Every bench takes ARGS='--before PATH' to compare with a build of another commit, and
# ARGS='--page docs/performance/gateway.md' (dns.md, plane.md, malloc.md) to write its tables into that page; bench-audio writes
# its page without ARGS (bench/README.md).
bench-http: ## compare the gateway with nginx and others on this machine
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- http --access-log $(ARGS)

bench-malloc: ## compare the allocator with glibc, mimalloc, jemalloc and others on this machine
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- malloc $(ARGS)

bench-dns: ## compare the DNS forwarder with unbound, dnsdist, Knot Resolver and dnsmasq
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- dns $(ARGS)

bench-plane: ## compare the request plane with tonic, tarpc and NATS
	@scripts/setup.sh bench
	@cargo run --locked --release --package steppe-bench -- plane $(ARGS)

bench-audio: ## compare @steppe/audio with recorders of sound servers, other packages, copies and a collected pool
	@scripts/setup.sh bench
	@cd clients/node-audio && npm ci --no-audit --no-fund && npm run build && \
	  npm run build:native -- --release && npm install --prefix bench/peers --no-audit --no-fund --no-save && \
	  npm run bench -- $(or $(ARGS),--svg bench/bench.svg --page ../../docs/performance/audio.md)

soak-audio: ## soak @steppe/audio on a sound server for an hour; unreported lost frames and growing memory fail
	@scripts/setup.sh soak
	@cargo run --locked --package xtask -- soak audio

docs: ## write the generated pages of docs/reference/ (configuration, command line)
	@scripts/setup.sh run
	@STEPPE_WRITE_DOCS=1 cargo test --locked --quiet --package steppe-node --lib -- reference

man: ## write the manual pages to target/packaging/man
	@scripts/setup.sh run
	@cargo xtask man

deb: ## build a Debian package in target/packaging/deb
	@scripts/setup.sh run
	@cargo xtask deb

image: ## build the container image `steppe`, which has only a static binary and its configuration
	@scripts/setup.sh image
	@cargo xtask image

lab: ## build target/packaging/lab/steppe-lab, a static binary of the lab
	@scripts/setup.sh image
	@cargo xtask lab

lab-image: ## build the container image `steppe-lab`, which has only the static binary of the lab
	@scripts/setup.sh image
	@cargo xtask lab-image

malloc_abi := crates/steppe-malloc-abi
malloc_version = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
CARGO_TARGET_DIR ?= target
# Another target than this machine's, e.g. TARGET=x86_64-unknown-linux-musl: musl's library is shared
# too, and linked by musl-gcc where the compiler of this machine is not musl's own.
TARGET ?=
malloc_built = $(CARGO_TARGET_DIR)/$(if $(TARGET),$(TARGET)/)release-malloc
malloc_rustflags = $(if $(findstring -musl,$(TARGET)),RUSTFLAGS="-C target-feature=-crt-static \
  $(if $(shell command -v musl-gcc),-C linker=musl-gcc)")
install: ## install libsteppe_malloc with header, .pc and CMake package; PREFIX=/usr/local DESTDIR= TARGET=
	@scripts/setup.sh run
	@$(malloc_rustflags) cargo build --locked --profile release-malloc --package steppe-malloc-abi \
	  $(if $(TARGET),--target "$(TARGET)")
	@install -d "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(LIBDIR)/cmake/steppe-malloc" \
	  "$(DESTDIR)$(INCLUDEDIR)"
	@install -m 755 "$(malloc_built)/libsteppe_malloc.so" \
	  "$(DESTDIR)$(LIBDIR)/libsteppe_malloc.so.0"
	@ln -sf libsteppe_malloc.so.0 "$(DESTDIR)$(LIBDIR)/libsteppe_malloc.so"
	@install -m 644 "$(malloc_built)/libsteppe_malloc.a" "$(DESTDIR)$(LIBDIR)/"
	@install -m 644 $(malloc_abi)/include/steppe_malloc.h "$(DESTDIR)$(INCLUDEDIR)/"
	@for file in steppe_malloc.pc:pkgconfig steppe-malloc-config.cmake:cmake/steppe-malloc \
	  steppe-malloc-config-version.cmake:cmake/steppe-malloc; do \
	  sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e "s|@INCLUDEDIR_FROM_LIBDIR@|$$(realpath -ms --relative-to="$(LIBDIR)" "$(INCLUDEDIR)")|" \
	    -e 's|@VERSION@|$(malloc_version)|' "$(malloc_abi)/$${file%%:*}.in" \
	    > "$(DESTDIR)$(LIBDIR)/$${file#*:}/$${file%%:*}" || exit 1; \
	done

wheel: ## build the Python wheel `steppe-malloc` in target/packaging/wheel; TARGET=
	@scripts/setup.sh run
	@python3 -m pip wheel --quiet --no-deps --no-index --wheel-dir target/packaging/wheel \
	  $(if $(TARGET),--config-settings target="$(TARGET)") packaging/python

fmt: ## format everything
	@scripts/setup.sh run
	@cargo fmt --all
	@cargo fmt --manifest-path fuzz/Cargo.toml
	@cargo fmt --manifest-path bench/malloc-peers/Cargo.toml
