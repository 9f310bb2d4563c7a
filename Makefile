# `make demo` and `make test` include the set-up; `make help` lists the other targets.
# You may interrupt both; the next call resumes. Nothing outside this directory changes except the package caches of
# pip and cargo. As root on Debian, `make test` also runs scripts/setup-system.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory --no-builtin-rules

PYTHON ?= python3
BIN    := .venv/bin
STEP   := scripts/step
ENGINE := python/bentpipe/_engine.abi3.so
OUT    ?= out/demo
DIST   ?= dist
CARGO_PROFILE ?= release
# The tests use the checked build. Each pytest worker has one processor, on which several polars threads take a third longer.
CHECKED = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/checked
RUNS = BENTPIPE_ENGINE=$(CHECKED)/_engine.abi3.so BENTPIPE_RT=$(CHECKED)/bentpipe-rt POLARS_MAX_THREADS=1

# `make test` starts hundreds of Python processes. Without a bytecode cache each of them compiles every module.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache

.PHONY: help demo test test-all coverage wheel wheel-aarch64 aarch64-test profdata docs container-test venv venv-dev train engine rt checked system fmt pins types golden instructions fuzz clean \
        check-rustfmt check-clippy check-rustdoc check-rust check-ruff check-mypy check-imports check-licences check-stub check-python check-lab check-live

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 18

demo: ## build, run scenarios/geo.toml, print its table, write the report (about a minute and a half from a clean clone)
	@scripts/demo "$(OUT)"

test: ## build, run every check and every test but the nightly ones
	@$(PYTHON) scripts/test

test-all: ## `make test` with the nightly tests: long forms, fault injection, pictures byte by byte
	@$(PYTHON) scripts/test --nightly

wheel: profdata target/wheel-venv/.done .venv/.run ## build an sdist and a wheel for Linux with glibc 2.28 or later in dist/ (needs rustup's llvm-tools; compiles everything with Zig)
# The host's compiler links the instrumented engine: rustc needs the option -u for the profiling library, and Zig lacks it.
	@PATH="$(CURDIR)/target/wheel-venv/bin:$$PATH" CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=cc \
	  scripts/train wheel maturin build --quiet --release --locked --zig --compatibility off --out target/training/counting
	@. scripts/guided wheel && $(STEP) "wheel" target/wheel-venv/bin/python scripts/wheel "$(DIST)"

wheel-aarch64: target/wheel-venv/.done ## build a wheel for Linux on aarch64 in dist/, by cross-compiling (needs `rustup target add aarch64-unknown-linux-gnu`)
	@$(STEP) "wheel for aarch64" target/wheel-venv/bin/python scripts/wheel "$(DIST)" aarch64-unknown-linux-gnu

aarch64-test: venv-dev engine wheel-aarch64 ## run that wheel under QEMU and compare its stores with this machine's, with mmdebstrap and qemu-user-static
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/aarch64-test "$(DIST)"

profdata:
	@scripts/find-profdata > /dev/null

target/wheel-venv/.done: | profdata
target/wheel-venv/.done: requirements/wheel.txt
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(STEP) "wheel builders" $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(@D)/bin/python scripts/check-licences $<
	@touch $@

docs: .venv/.run engine target/docs-venv/.done ## build the documents as an offline site in target/docs/site (some minutes at first, then 20 s)
	@PYTHONPATH=scripts $(STEP) "documents" target/docs-venv/bin/python -m documents . target/docs

target/docs-venv/.done: requirements/docs.txt
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(STEP) "site builder" $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(@D)/bin/python scripts/check-licences $<
	@touch $@

container-test: venv-dev engine rt ## build and use the image of Containerfile, as root, with buildah and mmdebstrap
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/container-test

# --- set-up -----------------------------------------------------------------------------------------------------

venv: .venv/.run ## create .venv with the packages of bentpipe
venv-dev: .venv/.dev ## create .venv with the packages of the tests too

.venv/.run: requirements/run.txt scripts/venv
	@$(STEP) "Python packages" scripts/venv $(PYTHON) requirements/run.txt
	@touch $@

.venv/.dev: requirements/dev.txt scripts/venv
	@$(STEP) "Python packages" scripts/venv $(PYTHON) requirements/dev.txt
	@touch $@ .venv/.run

train: profdata .venv/.run ## record an execution profile, which `engine`, `wheel` and `instructions` use (docs/decisions/0078)
	@scripts/train cargo cargo build --locked --release -p bentpipe-py

engine: ## build the optimised engine beside the Python modules (docs/decisions/0005)
	@$(STEP) "engine" scripts/build-engine $(CARGO_PROFILE) $(ENGINE)

rt: ## build bentpipe-rt, the program for real time
	@$(STEP) "bentpipe-rt" cargo build --release --locked -p bentpipe-rt

checked: ## build the engine and bentpipe-rt for the tests, with every assertion (docs/decisions/0075)
	@$(STEP) "checked build" scripts/build-checked $(ENGINE)

system: ## install the system packages that some tests need, as root on Debian
	@$(STEP) "system packages" scripts/setup-system

pins: ## update requirements/*.txt from requirements/*.in (needs uv)
	@for f in run dev wheel docs; do uv pip compile -q --universal --python-version 3.11 --generate-hashes --upgrade \
	  --no-emit-index-url --no-annotate --no-header requirements/$$f.in -o requirements/$$f.txt; done

# --- the checks of `make test`; each runs alone too ------------------- -----------------------------------------------------

# Build before the Python checks. scripts/test sets it to nothing: its build is done, and cargo would wait for its lock.
NEEDS ?= checked

check-rustfmt: ## check the format of Rust
	cargo fmt --all --check

check-clippy: ## run clippy, with the bans of clippy.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings

check-rustdoc: ## check links and markup in the documentation of the crates, with private items
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

check-rust: ## run unit, property and documentation tests of the crates
	cargo test --workspace --locked --tests --no-fail-fast
	! grep -rqE '^ *//[/!] *```' crates || cargo test --workspace --locked --doc --no-fail-fast

check-ruff: venv-dev ## lint Python and check its format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-mypy: venv-dev ## check the types of Python
	$(BIN)/mypy

check-imports: venv-dev ## check the order of the Python packages
	PYTHONPATH=python $(BIN)/lint-imports

check-licences: venv-dev ## check the licence of every dependency
	$(BIN)/python scripts/check-licences

check-stub: venv-dev $(NEEDS) ## compare _engine.pyi with the built engine
	$(RUNS) $(BIN)/python scripts/stub-diff

# Excludes the nightly tests. `make test-all` sets it to nothing.
SHORT ?= and not nightly

check-python: venv-dev $(NEEDS) ## run the tests without real time, in parallel (pytest)
	$(RUNS) $(BIN)/python -m pytest -m "not lab and not live $(SHORT)" -n auto --dist loadfile --no-loadscope-reorder

check-live: venv-dev $(NEEDS) ## run the tests of servers, bundle nodes and full disks, one at a time (pytest)
	$(RUNS) $(BIN)/python -m pytest -m "live and not lab $(SHORT)"

# A selection of tests, such as @FILE with one test a line (tests/python/collection_order.py).
TESTS ?=
check-lab: venv-dev $(NEEDS) ## run the tests of paths in real time, one at a time (pytest)
	$(RUNS) $(BIN)/python -m pytest -m "lab $(SHORT)" $(TESTS)

coverage: venv-dev $(NEEDS) ## measure the line coverage of each Python package, without labs (half an hour)
	@$(RUNS) $(BIN)/python scripts/coverage

# --- for developers ---------------------------------------------------------------------------------------------

fmt: venv-dev ## format everything
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

types: venv-dev engine ## write run_spec.py, the generated tables, docs/reference/options.md, metrics.md and presets.md from engine, registry and presets
	PYTHONPATH=python $(BIN)/python scripts/spec-types > target/spec.py
	$(BIN)/ruff format --quiet --config pyproject.toml target/spec.py
	mv target/spec.py python/bentpipe/plan/spec/run_spec.py
	for one in link/generated link/generated_services dtn/generated; do \
	  PYTHONPATH=python $(BIN)/python scripts/scenario-types $$one > target/generated.py && \
	  $(BIN)/ruff format --quiet --config pyproject.toml target/generated.py && \
	  mv target/generated.py python/bentpipe/scenario/$$one.py || exit 1; done
	PYTHONPATH=python $(BIN)/python scripts/option-tables > target/options.md
	mv target/options.md docs/reference/options.md
	PYTHONPATH=python $(BIN)/python scripts/metric-table > target/metrics.md
	mv target/metrics.md docs/reference/metrics.md
	PYTHONPATH=python $(BIN)/python scripts/preset-table > target/presets.md
	mv target/presets.md docs/reference/presets.md

golden: venv-dev engine ## write the outputs in examples, tutorial and README again, and show the difference
	BENTPIPE_UPDATE=1 $(BIN)/python -m pytest -q tests/python/test_{examples,tutorial,questions,readme,determinism}.py
	git --no-pager diff --stat -- examples docs/tutorial.md docs/how-to README.md

instructions: ## measure instructions and time per packet, with callgrind and without (picoquic's simulator is optional)
	@scripts/instructions

FUZZ_S ?= 60
fuzz: ## run every fuzz target for FUZZ_S seconds (60); needs a nightly toolchain and cargo-fuzz
	@scripts/fuzz $(FUZZ_S)

clean: ## remove all build products; the caches of pip and cargo stay
	rm -rf target dist .venv $(ENGINE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
