# `make demo` and `make test` do all the set-up; `make help` lists the rest.
# Both may be interrupted at any moment and go on where they were. Nothing outside this directory changes,
# except the package caches of pip and cargo, and `make test` as root on Debian runs scripts/setup-system.
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
# What the tests run. A worker of pytest has a processor: polars' threads would wait for each other, for a third of its time.
CHECKED = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/checked
RUNS = BENTPIPE_ENGINE=$(CHECKED)/_engine.abi3.so BENTPIPE_RT=$(CHECKED)/bentpipe-rt POLARS_MAX_THREADS=1

# Hundreds of processes of Python begin in `make test`; where none may keep what it has compiled, each compiles everything again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/target/pycache

.PHONY: help demo test test-all coverage wheel docs container-test venv venv-dev train engine rt checked system fmt pins types golden instructions fuzz clean \
        check-rustfmt check-clippy check-rustdoc check-rust check-ruff check-mypy check-imports check-licences check-stub check-python check-lab check-live

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 18

demo: ## build, run scenarios/geo.toml, print its table, write the report (about a minute and a half from a clean clone)
	@scripts/demo "$(OUT)"

test: ## build, run every check and every test but the nightly ones
	@$(PYTHON) scripts/test

test-all: ## the same with the nightly tests: long forms, chaos rigs, pictures byte by byte
	@$(PYTHON) scripts/test --nightly

wheel: target/wheel-venv/.done .venv/.run ## an sdist, and a wheel for Linux with glibc 2.28 or later, in dist/ (compiles everything with Zig)
# What counts is linked by the machine's compiler: Zig has no -u, by which rustc asks for the counters' library.
	@PATH="$(CURDIR)/target/wheel-venv/bin:$$PATH" CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=cc \
	  scripts/train wheel maturin build --quiet --release --locked --zig --compatibility off --out target/training/counting
	@. scripts/guided wheel && $(STEP) "wheel" target/wheel-venv/bin/python scripts/wheel "$(DIST)"

target/wheel-venv/.done: requirements/wheel.txt
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(STEP) "what builds wheels" $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(@D)/bin/python scripts/check-licences $<
	@touch $@

docs: .venv/.run engine target/docs-venv/.done ## the documents as a site that needs no network, in target/docs/site (some minutes at first, then 20 s)
	@PYTHONPATH=scripts $(STEP) "documents" target/docs-venv/bin/python -m documents . target/docs

target/docs-venv/.done: requirements/docs.txt
	@rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	@$(STEP) "what builds the site" $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@$(@D)/bin/python scripts/check-licences $<
	@touch $@

container-test: venv-dev engine rt ## as root, with buildah and mmdebstrap: the image of Containerfile, built and used
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python scripts/container-test

# --- set-up -----------------------------------------------------------------------------------------------------

venv: .venv/.run ## .venv with what running needs
venv-dev: .venv/.dev ## .venv with what testing needs too

.venv/.run: requirements/run.txt scripts/venv
	@$(STEP) "Python packages" scripts/venv $(PYTHON) requirements/run.txt
	@touch $@

.venv/.dev: requirements/dev.txt scripts/venv
	@$(STEP) "Python packages" scripts/venv $(PYTHON) requirements/dev.txt
	@touch $@ .venv/.run

train: .venv/.run ## count what an engine does where, so that `engine`, `wheel` and `instructions` compile for that (docs/decisions/0078)
	@scripts/train cargo cargo build --locked --release -p bentpipe-py

engine: ## build the engine, for speed, and put it beside the Python modules (docs/decisions/0005)
	@$(STEP) "engine" scripts/build-engine $(CARGO_PROFILE) $(ENGINE)

rt: ## build bentpipe-rt, for everything in real time
	@$(STEP) "bentpipe-rt" cargo build --release --locked -p bentpipe-rt

checked: ## build what the tests run, with every assertion: the engine and bentpipe-rt (docs/decisions/0075)
	@$(STEP) "what tests run" scripts/build-checked $(ENGINE)

system: ## as root on Debian: the system packages that some tests need
	@$(STEP) "system packages" scripts/setup-system

pins: ## resolve requirements/*.in again (needs uv)
	@for f in run dev wheel docs; do uv pip compile -q --universal --python-version 3.11 --generate-hashes --upgrade \
	  --no-emit-index-url --no-annotate --no-header requirements/$$f.in -o requirements/$$f.txt; done

# --- the checks of `make test`, each of which can be run alone -----------------------------------------------------

# What Python's checks run; empty in scripts/test, which has built it: a look at it would wait for cargo's lock.
NEEDS ?= checked

check-rustfmt: ## Rust is formatted
	cargo fmt --all --check

check-clippy: ## clippy, with the bans of clippy.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings

check-rustdoc: ## links and markup in the documentation of the crates, of private items too
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

check-rust: ## unit, property and documentation tests of the crates
	cargo test --workspace --locked --tests --no-fail-fast
	! grep -rqE '^ *//[/!] *```' crates || cargo test --workspace --locked --doc --no-fail-fast

check-ruff: venv-dev ## Python is formatted and linted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-mypy: venv-dev ## Python is typed
	$(BIN)/mypy

check-imports: venv-dev ## who may import whom
	PYTHONPATH=python $(BIN)/lint-imports

check-licences: venv-dev ## every dependency's licence is one we may use
	$(BIN)/python scripts/check-licences

check-stub: venv-dev $(NEEDS) ## _engine.pyi says what the built engine is
	$(RUNS) $(BIN)/python scripts/stub-diff

# Without the nightly tests; empty in `make test-all`.
SHORT ?= and not nightly

check-python: venv-dev $(NEEDS) ## pytest: tests that need no real time, side by side
	$(RUNS) $(BIN)/python -m pytest -m "not lab and not live $(SHORT)" -n auto --dist loadfile --no-loadscope-reorder

check-live: venv-dev $(NEEDS) ## pytest: servers, bundle nodes and full disks, one at a time
	$(RUNS) $(BIN)/python -m pytest -m "live and not lab $(SHORT)"

# Which of them; tests/python/order.py has no file read that has none.
TESTS ?=
check-lab: venv-dev $(NEEDS) ## pytest: paths in real time, one at a time
	$(RUNS) $(BIN)/python -m pytest -m "lab $(SHORT)" $(TESTS)

coverage: venv-dev $(NEEDS) ## lines of each Python package that tests run, without labs (half an hour); names those below 85 %
	@$(RUNS) $(BIN)/python scripts/coverage

# --- for developers ---------------------------------------------------------------------------------------------

fmt: venv-dev ## format everything
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

types: venv-dev engine ## write run_spec.py, generated.py, docs/manual/options.md and metrics.md from the engine and the registry
	PYTHONPATH=python $(BIN)/python scripts/spec-types > target/spec.py
	$(BIN)/ruff format --quiet --config pyproject.toml target/spec.py
	mv target/spec.py python/bentpipe/plan/spec/run_spec.py
	PYTHONPATH=python $(BIN)/python scripts/scenario-types > target/generated.py
	$(BIN)/ruff format --quiet --config pyproject.toml target/generated.py
	mv target/generated.py python/bentpipe/scenario/link/generated.py
	PYTHONPATH=python $(BIN)/python scripts/option-tables > target/options.md
	mv target/options.md docs/manual/options.md
	PYTHONPATH=python $(BIN)/python scripts/metric-table > target/metrics.md
	mv target/metrics.md docs/manual/metrics.md

golden: venv-dev engine ## write the outputs that examples, tutorial and README show anew, for a look at the difference
	BENTPIPE_UPDATE=1 $(BIN)/python -m pytest -q tests/python/test_{examples,tutorial,questions,readme,determinism}.py
	git --no-pager diff --stat -- examples docs/tutorial.md docs/questions README.md

instructions: ## instructions and time per packet, by callgrind and without; whole works beside picoquic's simulator where it is found
	@scripts/instructions

FUZZ_S ?= 60
fuzz: ## every fuzz target for FUZZ_S seconds (60); needs a nightly toolchain and cargo-fuzz
	@scripts/fuzz $(FUZZ_S)

clean: ## remove what was built; the caches of pip and cargo stay
	rm -rf target dist .venv $(ENGINE) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
