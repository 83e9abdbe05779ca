# Every target does its own set-up: a fresh clone, Python 3.11 or newer with venv, gcc and make are enough.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
CC_CHECK ?= gcc
PYTEST_ARGS ?=
# More workers than cores: most of the time the tests wait for processes to end.
JOBS ?= 3
RUNS ?= 10000
SEED ?= 1
CHAOS_ARGS ?=
CONFORMANCE_ARGS ?=
MATRIX_ARGS ?=

VENV := .venv
ADAPTERS_VENV := .venv-adapters
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
GUARD := src/holdfast/guard/holdfast-guard
SANITIZED := build/guard-sanitized
REPORTS := $(CURDIR)/build/sanitizer-report
SOURCES := $(sort $(wildcard native/*.c))
HEADERS := $(sort $(wildcard native/*.h))
# Named, because pytest imports only the directories that it is given: the unprivileged run has no extras installed.
GUARD_TESTS := $(shell grep -rl 'mark\.guard' tests --include='test_*.py' | grep -v '^tests/daemon/' | sort)

C_FLAGS := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wformat=2 -Wundef -Wvla -Wwrite-strings -Wpointer-arith

.PHONY: help demo test check check-python check-native guard dashboard clients suite test-unprivileged test-guard-sanitized bench conformance matrix chaos trials rig-harnesses rig-ray adapters architecture wheel clean

help:
	@echo 'make demo    set up, then watch Holdfast end a command that does not want to end'
	@echo 'make test    set up, then static checks and the whole suite, in its three runs'
	@echo 'make check   ruff, mypy --strict, gcc -Werror -fanalyzer, clang-tidy'
	@echo 'make suite   the suite once, as the user you are (PYTEST_ARGS="-k name" to choose)'
	@echo 'make test-unprivileged      the guard tests as an ordinary user, without a cgroup'
	@echo 'make test-guard-sanitized   the guard tests on an ASan/UBSan build of the guard'
	@echo 'make guard   rebuild the guard in the source tree'
	@echo 'make dashboard   rebuild the dashboard in the source tree'
	@echo 'make clients build the TypeScript client into clients/typescript/dist'
	@echo 'make bench   ratios against the usual ways to start a process, on this machine'
	@echo 'make conformance   adversarial commands with Holdfast and the usual ways to run one: what held'
	@echo 'make matrix  the Holdfast columns of it as root and as nobody, with and without a cgroup, and with ASan/UBSan'
	@echo 'make chaos   many runs while guards, sentinels and owners are killed or stopped (RUNS=10000 SEED=1)'
	@echo 'make trials  real agent harnesses with and without Holdfast: what they leave behind (a quarter of an hour)'
	@echo 'make rig-ray   three real Ray nodes, and partitions between them: what held (as root, two minutes)'
	@echo 'make rig-harnesses   install those harnesses from npm into the cache of the rigs, outside the repository'
	@echo 'make adapters   every adapter with its real framework, in an environment of their own (two gigabytes)'
	@echo 'make architecture   renew the made parts of docs/architecture.md'
	@echo 'make wheel   build the wheel into dist/'
	@echo 'make clean   remove everything that was built, the virtual environment included'

demo: $(VENV)/installed $(GUARD)
	@examples/demo.sh $(BIN)

test: check suite test-unprivileged test-guard-sanitized
	@echo 'make test: static checks and all three runs of the suite passed'

check: check-python check-native

check-python: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check-native: $(VENV)/installed-dev
	@command -v $(CC_CHECK) >/dev/null || { echo 'make: gcc is missing; install it (Debian: apt-get install gcc)' >&2; exit 1; }
	for source in $(SOURCES); do $(CC_CHECK) $(C_FLAGS) -O2 -fanalyzer -c $$source -o /dev/null; done
	$(BIN)/clang-tidy --quiet $(SOURCES) -- -std=c11 -D_GNU_SOURCE

suite: $(VENV)/installed-dev $(GUARD)
	@echo '== the suite, as $(shell id -un) =='
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

test-unprivileged: $(VENV)/installed-dev $(GUARD)
	@echo '== the guard tests, as an ordinary user =='
	.ci/unprivileged $(BIN)/python -n $(JOBS) --dist loadgroup -m "guard and not root and not slow" $(PYTEST_ARGS) $(GUARD_TESTS)

# Sanitizer findings go to files, because nobody reads the stderr of a guard; the target looks for the files afterwards.
test-guard-sanitized: $(VENV)/installed-dev $(SANITIZED)
	@echo '== the guard tests, on the ASan/UBSan build =='
	rm -f $(REPORTS).*
	status=0; HOLDFAST_GUARD=$(CURDIR)/$(SANITIZED) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "guard and not slow" $(PYTEST_ARGS) $(GUARD_TESTS) || status=$$?; \
	if compgen -G '$(REPORTS).*' >/dev/null; then cat $(REPORTS).*; echo 'make: the sanitizers found the above' >&2; exit 1; fi; \
	exit $$status

guard: $(VENV)/installed
	$(BIN)/python hatch_build.py

dashboard: $(VENV)/installed
	$(BIN)/python hatch_build.py dashboard

clients: $(VENV)/installed-dev
	clients/typescript/scripts/build $(CURDIR)/$(BIN)/python

bench: $(VENV)/installed-dev $(GUARD)
	$(BIN)/python -m bench

conformance: $(VENV)/installed-dev $(GUARD)
	$(BIN)/python -m conformance $(CONFORMANCE_ARGS)

matrix: $(VENV)/installed-dev $(GUARD) $(SANITIZED)
	rm -f $(REPORTS).*
	$(BIN)/python -m conformance.matrix $(MATRIX_ARGS)

chaos: $(VENV)/installed-dev $(GUARD)
	$(BIN)/python -m chaos --runs $(RUNS) --seed $(SEED) $(CHAOS_ARGS)

trials: $(VENV)/installed-dev $(GUARD)
	$(BIN)/python -m trials --output docs/trials.md $(TRIALS_ARGS)

rig-ray: $(VENV)/installed-dev $(GUARD)
	$(BIN)/python -m rigs.ray_partition

rig-harnesses: $(BIN)/python
	$(BIN)/python -m rigs.harnesses

adapters: $(ADAPTERS_VENV)/installed $(GUARD)
	$(ADAPTERS_VENV)/bin/mypy src/holdfast/adapters
	HOLDFAST_ADAPTERS=1 $(ADAPTERS_VENV)/bin/python -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS) tests/adapters

architecture: $(VENV)/installed
	$(BIN)/python -m tools.architecture

wheel: $(VENV)/installed
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

clean:
	rm -rf build dist dashboard/{node_modules,.lock} src/holdfast/daemon/http/static clients/typescript/{dist,node_modules,src/generated,test/generated} $(VENV) $(ADAPTERS_VENV) $(GUARD) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(GUARD): $(SOURCES) $(HEADERS) hatch_build.py | $(VENV)/installed
	$(BIN)/python hatch_build.py

# The options are linked in, because the environment of a guard is not ours to set. The build does not look for leaks:
# that needs ptrace, which containers forbid, and a guard allocates at its start only. The runtimes are
# linked statically: as two shared libraries UBSan's findings do not reach the log path, only the stderr nobody reads.
$(SANITIZED): $(SOURCES) $(HEADERS) Makefile
	@command -v $(CC_CHECK) >/dev/null || { echo 'make: gcc is missing; install it (Debian: apt-get install gcc)' >&2; exit 1; }
	mkdir -p build
	printf '%s\n' 'const char *__asan_default_options(void);' 'const char *__ubsan_default_options(void);' \
	  'const char *__asan_default_options(void) { return "exitcode=99:detect_leaks=0:detect_stack_use_after_return=1:log_path=$(REPORTS)"; }' \
	  'const char *__ubsan_default_options(void) { return "print_stacktrace=1:log_path=$(REPORTS)"; }' > build/sanitizer-options.c
	$(CC_CHECK) $(C_FLAGS) -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \
	  -static-libasan -static-libubsan $(SOURCES) build/sanitizer-options.c -o $@

# Installed without build isolation: the compiler is unpacked once and finds its own cache again, so only the first build
# compiles musl (half a minute). The requirements are read from where pip would read them.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo 'make: installing the compiler and the package into $(VENV); the first time takes a minute or two'
	$(PIP) install $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	$(PIP) install --no-build-isolation --editable .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo 'make: installing the test and check tools into $(VENV)'
	$(PIP) install --no-build-isolation --editable '.[dev]'
	touch $@

$(ADAPTERS_VENV)/installed: pyproject.toml | $(VENV)/installed
	@echo 'make: installing the frameworks into $(ADAPTERS_VENV); this takes some minutes'
	$(PYTHON) -m venv $(ADAPTERS_VENV)
	$(ADAPTERS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install \
	  $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	$(ADAPTERS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-build-isolation --editable '.[adapters]'
	touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'make: Python 3.11 or newer is needed; point PYTHON at one: make PYTHON=python3.12' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
