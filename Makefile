PYTHON ?= python3
BIN := .venv/bin
# Compiled modules are kept, also where the machine is set not to: the tests start Python many times.
unexport PYTHONDONTWRITEBYTECODE
# One process a core, each with one thread (tests/conftest.py): the models of the tests are tiny.
PYTEST := $(BIN)/pytest -n auto --maxprocesses 8 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo check test behaviour style test-gpu test-extras test-minimum torture lock size lint docs-check bench dist try-wheel clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# The stamp is newer than what it was made from, so that a changed requirement installs again and nothing else does.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/installed ## compare three methods on four made-up domains
	$(BIN)/memgrow demo

check: lint ## the quick part, for daily work: style, types, most of the tests
	$(PYTEST) -m "not slow and not docs and not emulated and not extras and not gpu"

# Side by side, as types and layers keep one core busy and leave the other idle.
test: .venv/installed ## everything that CI runs: style, types, tests, docs
	@$(MAKE) --no-print-directory --jobs 2 behaviour style

behaviour: .venv/installed
	$(PYTEST) -m "not extras and not gpu"

style: lint docs-check

test-gpu: .venv/installed ## the tests that need a GPU
	$(BIN)/pytest tests/gpu

# Installed for root on Debian only; elsewhere the tests in a browser are skipped.
FIND_BROWSER := { command -v chromium-headless-shell || command -v chromium || command -v google-chrome; } > /dev/null
INSTALL_BROWSER := { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && echo "Installing a browser for tests." && \
	apt-get -qq update && apt-get -qq install --yes --no-install-recommends chromium-headless-shell > /dev/null; }

.venv/extras: .venv/installed
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[test-extras]'
	@$(FIND_BROWSER) || $(INSTALL_BROWSER) || echo "No browser is here and none could be installed:" \
		"the page's tests in a browser will be skipped (on Debian: apt-get install chromium-headless-shell)."
	touch $@

test-extras: .venv/extras ## tests that need a browser, a cluster or minutes; skipped where these are missing
	$(BIN)/pytest -m extras -rs

# SEED=7 draws other moments and other damage.
SEED ?= 0
torture: .venv/installed ## ten minutes of kills, full disks, crowds and damage: nothing is lost
	$(BIN)/pytest torture -n 2 --seed $(SEED) --counts results/torture/counts.json
	$(BIN)/python docs/figures.py --write

lock: ## requirements.lock: hashes of all packages that memgrow runs with; needs uv
	python release/lock.py

size: .venv/installed ## how large the package is, with the limits that are aimed at
	$(BIN)/python benchmarks/size.py

lint: .venv/installed ## style, types, and the order of the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

docs-check: .venv/installed ## check the pages against results and code
	$(BIN)/python docs/check.py

bench: .venv/installed ## time layers on the CPU
	$(BIN)/python benchmarks/recurrence.py --curves --rounds 3 --out results/recurrence-cpu.json
	$(BIN)/python docs/figures.py --write

.venv/release: .venv/installed
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[release]'
	touch $@

dist: .venv/release ## wheel and source distribution in dist/, checked
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python release/check_dist.py

try-wheel: ## the README's commands from the wheel in dist/, in an empty environment, with times
	$(PYTHON) release/try_wheel.py

# MINIMUM_TORCH=2.13.0 spares those who have that one the download of another.
MINIMUM_TORCH ?= 2.11.0
.venv-minimum/installed: pyproject.toml constraints-minimum.txt
	$(PYTHON) -m venv .venv-minimum
	.venv-minimum/bin/pip install --disable-pip-version-check --quiet --constraint constraints-minimum.txt \
		'torch==$(MINIMUM_TORCH)' --editable '.[dev]'
	touch $@

test-minimum: .venv-minimum/installed ## the quick tests with the oldest versions that are allowed
	.venv-minimum/bin/pytest -n auto --maxprocesses 8 --dist worksteal \
		-m "not slow and not docs and not emulated and not extras and not gpu"

clean: ## remove what was installed and built
	rm -rf .venv .venv-minimum build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
