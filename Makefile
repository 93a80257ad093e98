# Every target sets up what it needs in .venv; a second run reuses it.
#
# PYTHON      the interpreter that creates .venv (3.11 or newer)
# PYTEST_ARGS what `make test` hands to pytest, for instance PYTEST_ARGS="-n auto" for all cores

PYTHON ?= python3
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Each stamp is newer than pyproject.toml when .venv holds those dependencies.
CORE := $(VENV)/core.stamp
CLI := $(VENV)/cli.stamp
DEV := $(VENV)/dev.stamp
BENCH := $(VENV)/bench.stamp

.DEFAULT_GOAL := help
.PHONY: help demo test lint types contracts check format clean
.PHONY: bench bench-detectors bench-scaling bench-device bench-dask bench-faces

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CLI) ## fuse detectors on real data, and a page to look at
	@mkdir -p build
	@$(BIN)/lpfuse demo -o build/demo.html

test: $(DEV) ## tests, with the examples of README and docstrings
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(DEV) ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV) ## static types
	$(BIN)/mypy

contracts: $(DEV) ## which module may import which
	$(BIN)/lint-imports

check: lint types contracts test ## all of the above: what CI runs

bench: $(BENCH) ## time the solvers against their rivals
	$(BIN)/python -m benchmarks.solver

bench-detectors: $(BENCH) ## time the learners against scikit-learn and PyOD
	$(BIN)/python -m benchmarks.detectors

bench-scaling: $(BENCH) ## time fits over n, R and threads, and from a file
	$(BIN)/python -m benchmarks.scaling cpu

bench-device: $(BENCH) ## time fits on a GPU, or on torch's CPU where there is none
	$(PIP) --editable ".[gpu]"
	$(BIN)/python -m benchmarks.scaling device

bench-dask: $(BENCH) ## time fits over one, two and four Dask processes
	$(PIP) --editable ".[dask]"
	$(BIN)/python -m benchmarks.scaling dask

bench-faces: $(BENCH) ## time finding faces in a video, and what comes after
	$(PIP) --editable ".[faces]"
	$(BIN)/python -m benchmarks.faces.detection

format: $(DEV) ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and everything generated
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CORE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

$(CLI): $(CORE)
	$(PIP) --editable ".[cli]"
	@touch $@

$(DEV): $(CORE)
	$(PIP) --editable ".[dev]"
	@touch $@

$(BENCH): $(CORE)
	$(PIP) --editable ".[bench]"
	@touch $@
