# The only commands a newcomer needs. Each installs what is missing first (scripts/setup says what).
#
#   make demo     PyTorch scripts (or stand-ins) share this machine, for real; draws who ran when
#   make test     build and run all tests
#   make build    build/bin/salus
#   make test-gpu scripts of many frameworks on this machine's GPU, natively and under Salus; weights; faults
#   make bench    benchmarks, then the evaluation of docs/evaluation.md
#   make format   format the C++ sources
#   make check    everything: tests, again under the sanitizers, libFuzzer, 100,000 seeds of the swarm, 7,000 random threaded
#                 programs, 1,000 orders of fork, exec and dlopen (under the sanitizers, too), 40 jobs through 30 restarts, formatting
#   make test-cluster  jobs of a real Slurm (as root) and a real Ray; part of make check
#   make install  install below PREFIX (/usr/local), and make uninstall; docs/install.md
#   make package  a Debian package, an rpm, a tarball and a wheel in build/packages, for systems with glibc 2.28 and newer;
#                 make test-install tries them, as root
#   make clean    remove build/

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

# Compilers need up to 1 GiB each; one a core is what small machines can take.
JOBS ?= $(shell nproc)
BUILD := cmake --build --parallel $(JOBS) --preset
# Most tests of real processes wait more than they compute.
CTEST := ctest --output-on-failure --parallel $(shell expr $(JOBS) + $(JOBS))
CONCURRENCY := python3 tests/concurrency/run
ORDERS := python3 tests/shim/orders
TSAN := halt_on_error=1 report_thread_leaks=0 die_after_fork=0

SOURCES := $(shell git ls-files -co --exclude-standard 'src/*.cpp' 'src/*.h' 'include/*.h' 'tests/*.cpp' 'tests/*.h' 'bench/*.cpp' 'bench/*.h' 'python/*.cpp' 2>/dev/null)

PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: build programs install uninstall package test test-gpu test-install test-cluster demo bench format check clean setup torch torch-all prometheus

setup:
	@scripts/setup

build: setup
	@cmake --preset release >/dev/null
	@$(BUILD) release

# What a user runs, without tests and benchmarks.
programs: setup
	@cmake --preset release >/dev/null
	@$(BUILD) release --target salus salusd salus-job salus_shim

install: programs
	@case '$(PREFIX)' in /*) ;; *) echo "install: PREFIX must be an absolute path; got '$(PREFIX)'" >&2; exit 2 ;; esac
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)' --component salus >build/install.log || { tail -n 5 build/install.log; exit 1; }
	@grep 'was changed' build/install.log || true
	@echo "Salus is installed in $(DESTDIR)$(PREFIX)"

uninstall:
	@DESTDIR='$(DESTDIR)' packaging/uninstall '$(PREFIX)'

# With a compiler for older systems where that can be had, else with this machine's.
package: setup
	@if command -v dpkg-deb >/dev/null; then scripts/setup rpm; fi
	@preset=release; ! packaging/toolchain || preset=package; \
	cmake --preset $$preset >/dev/null; \
	$(BUILD) $$preset --target salus salusd salus-job salus_shim; \
	packaging/package $$preset

build-%: setup
	@cmake --preset $* >/dev/null
	@$(BUILD) $*

# PyTorch, for what uses it; without it that says that it is skipped.
torch:
	@scripts/setup-torch
torch-all: setup
	@scripts/setup-torch --all
prometheus: setup
	@scripts/setup-prometheus

# From nothing within 10 minutes on two cores. Each PyTorch test runs with one of two versions here, with both in `make check`.
test:
	@$(MAKE) --no-print-directory -j2 build torch-all prometheus
	@if command -v python3 >/dev/null; then for test in tests/python/test_*.py; do python3 $$test; done; else echo "no python3: SKIPPED"; fi
	@$(CTEST) --test-dir build
	@$(CONCURRENCY) --kind host --seconds 60 & other=$$!; $(CONCURRENCY) --kind standin --seconds 60 || failed=1; \
	wait $$other && [ -z "$${failed:-}" ]

# Not part of `make test`: it needs a GPU, and a PyTorch for it as python3.
test-gpu: build
	@python3 scripts/test-gpu
	@python3 tests/cluster/gpu
	@python3 bench/gpu weights faults

# Not part of `make test`: it needs root, and a Debian mirror to be thorough.
test-install: package
	@scripts/setup cpio debootstrap python3-venv
	@packaging/test
	@tests/cluster/literal --build build || [ $$? -eq 77 ]

# Not part of `make test`: some two minutes each. Without root or packages they say that they are skipped.
test-cluster: build torch-all
	@[ "$$(id -u)" -ne 0 ] || scripts/setup slurmctld slurmd slurm-client munge libslurm-dev || true
	@scripts/setup-ray
	@for engine in slurm ray; do tests/cluster/$$engine || [ $$? -eq 77 ]; done

demo: programs torch
	@scripts/demo

bench: build torch
	@$(BUILD) release --target salus_bench salus_bench_turns
	@build/bin/salus_bench_turns
	@build/bin/salus bench bench/agreement.csv --policy all --simulate --lanes 1
	@build/bin/salus bench bench/agreement_overlap.csv --policy fair,rr --simulate --overlap measure
	@build/bin/salus_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
	@bench/torch
	@bench/evaluate
	@bench/shapes/run
	@bench/predict
	@bench/forecast
	@bench/metrics

format: setup
	@clang-format -i $(SOURCES)

check: test build-dev build-asan build-tsan
	@$(BUILD) dev --target salus_bench salus_bench_turns
	@clang-format --dry-run --Werror $(SOURCES)
	@SALUS_TEST_ALL=1 $(CTEST) --test-dir build -R 'Torch|RealGates|ShimThreads|ShimCrowd'
	@$(MAKE) --no-print-directory test-cluster
	@$(CTEST) --test-dir build/asan
	@SALUS_TEST_ALL=1 $(CTEST) --test-dir build/asan -R 'ShimThreads|ShimCrowd'
	@$(ORDERS) --seeds 101..1000 --build build/asan --seed-limit 60
	@build/asan/bin/salus_fuzz 2001..4000
	@build/asan/bin/salus sim fuzz --seeds 60001..62000
	@TSAN_OPTIONS="$(TSAN)" $(CTEST) --test-dir build/tsan
	@TSAN_OPTIONS="$(TSAN)" SALUS_TEST_ALL=1 $(CTEST) --test-dir build/tsan -R 'ShimThreads|ShimCrowd'
	@$(ORDERS) --seeds 101..1000 --build build/tsan --seed-limit 60
	@build/tsan/bin/salus sim fuzz --seeds 1..500
	@$(ORDERS) --seeds 1..1000
	@$(CONCURRENCY) --kind host --programs 2000 --first-seed 100001
	@$(CONCURRENCY) --kind standin --programs 5000 --first-seed 100001
	@$(CONCURRENCY) --kind native --programs 300 --build build/tsan
	@$(CONCURRENCY) --kind standin --programs 300 --build build/tsan
	@tests/soak/restarts
	@scripts/setup chromium || true
	@tests/web/page || [ $$? -eq 77 ]
	@scripts/fuzz 60
	@build/bin/salus sim fuzz --seeds 1..100000

clean:
	@rm -rf build
