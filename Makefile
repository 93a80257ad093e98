# Every target sets up what it needs in .venv; a second run reuses it.
#
# PYTHON      the interpreter that creates .venv (3.11 or newer)
# PYTEST_ARGS what `make test` hands to pytest beside its own, for instance PYTEST_ARGS="-k threshold"
# LIMIT       how many files of each kind `make fuzz` forges out of each model
# ARGS        what `make reproduce` hands to the experiments, for instance ARGS="uci --quick"

PYTHON ?= python3
PYTEST_ARGS ?=
ARGS ?= --help
LIMIT ?= 100

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STEP := $(BIN)/python -m tools.step
# First without extras: pip then takes the packages of the clone for whatever extra another of them requires.
EDITABLE := --editable packages/lpfuse --editable packages/lpfuse-cli --editable packages/lpfuse-onnx \
	--editable packages/lpfuse-clients
# research/ is never installed: it is found from the root of the clone, with the oracles of the tests.
RESEARCH := PYTHONPATH=.:packages/lpfuse/tests

# Each stamp is newer than the files that say what .venv must hold.
CORE := $(VENV)/core.stamp
CLI := $(VENV)/cli.stamp
DEV := $(VENV)/dev.stamp
LAB := $(VENV)/research.stamp
BUILT := $(VENV)/compiled.stamp
PROJECTS := $(patsubst %,packages/%/pyproject.toml,lpfuse lpfuse-cli lpfuse-onnx lpfuse-clients lpfuse-faces)
# What is compiled, into libraries beside the sources.
SOURCES := $(shell find packages/lpfuse/src -name '*.pyx' -o -name '*.pxd' -o -name '*.h') packages/lpfuse/hatch_build.py

.DEFAULT_GOAL := help
.PHONY: help demo compiled test test-numpy test-research test-slow test-array-api lint audit fuzz types contracts check format clean reproduce notebook
.PHONY: docs browser cheat-sheet record
.PHONY: packages coverage test-oldest test-spark leaderboard
.PHONY: bench bench-detectors bench-rows bench-scaling bench-device bench-dask bench-faces

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CLI) ## fuse detectors on real data, and a page to look at
	@mkdir -p build
	@$(BIN)/lpfuse demo -o build/demo.html

compiled: $(BUILT) ## compile what changed since, where there is a compiler; all targets see to it

# What CI runs, too, is said in tools/step.py, once.
test: $(DEV) ## tests of what users install, on all cores, with the examples of README, guides and docstrings
	$(STEP) test $(PYTEST_ARGS)

test-numpy: $(DEV) ## tests of the solvers without compiled code, as where there is no compiler
	$(STEP) test-numpy $(PYTEST_ARGS)

test-research: $(DEV) ## tests of the experiments, studies and benchmarks
	$(STEP) test-research $(PYTEST_ARGS)

test-slow: $(DEV) ## the tests marked slow, of both
	$(STEP) test-slow $(PYTEST_ARGS)

test-array-api: $(DEV) ## scikit-learn's checks of other array libraries
	$(STEP) test-array-api $(PYTEST_ARGS)

test-spark: $(DEV) ## tests on a Spark cluster of two workers; fetches pyspark (500 MB), needs Java 17
	$(STEP) test-spark $(PYTEST_ARGS)

test-oldest: $(DEV) ## tests with the oldest versions that pyproject.toml admits, in an environment of their own
	$(STEP) oldest

coverage: $(DEV) ## branch coverage of lpfuse by its quick tests
	$(STEP) coverage $(PYTEST_ARGS)

lint: $(DEV) ## style, formatting, spelling, ends of files
	$(STEP) lint
	$(STEP) files
	$(STEP) oldest-file

audit: $(DEV) ## unsafe calls in the code, and known vulnerabilities in what it requires
	$(STEP) audit

fuzz: $(DEV) ## forge model files out of every class that one may hold, and watch what they do: minutes to hours
	cd packages/lpfuse/tests && OMP_NUM_THREADS=1 $(CURDIR)/$(BIN)/python -m fuzz $(LIMIT)

types: $(DEV) ## static types
	$(STEP) types

contracts: $(DEV) ## which module may import which
	$(STEP) contracts

packages: $(DEV) ## sdists and wheels into dist/, twice to the same bytes; installed, used, uninstalled
	$(STEP) build
	$(STEP) typed
	$(STEP) smoke
	$(STEP) smoke oldest
	$(STEP) smoke pure
	$(STEP) smoke sdist

check: lint audit types contracts docs test test-numpy test-research test-slow test-array-api ## all checks: what CI runs

record: ## run CI as .ci/run does, and note in .ci/passed.json what passed, to be committed
	CI_RECORD=1 .ci/run

reproduce: $(LAB) ## the paper's experiments: make reproduce ARGS="uci --quick"
	$(RESEARCH) $(BIN)/lpfuse reproduce $(ARGS)

notebook: $(LAB) ## run the notebooks of examples anew, and store what they show
	OMP_NUM_THREADS=1 $(RESEARCH) $(BIN)/python -m research.notebook

# A warning is an error; nothing is fetched. Examples that did not change are not run again.
docs: $(DEV) ## the site, with its gallery: build/site/index.html
	$(STEP) docs

browser: $(DEV) ## examples in Python for browsers, under Node: fetches Pyodide and its packages
	$(STEP) browser

cheat-sheet: $(DEV) ## docs/cheat-sheet.md on one printed page: build/cheat-sheet.pdf; needs chromium
	$(BIN)/python docs/site/cheat_sheet.py build/cheat-sheet.html
	chromium --headless --no-sandbox --disable-gpu --no-pdf-header-footer \
		--print-to-pdf=build/cheat-sheet.pdf build/cheat-sheet.html 2>/dev/null

bench: $(LAB) ## time the solvers against their rivals
	$(RESEARCH) $(BIN)/python -m research.speed.solver

bench-detectors: $(LAB) ## time the learners against scikit-learn and PyOD
	$(RESEARCH) $(BIN)/python -m research.speed.detectors

bench-rows: $(LAB) ## time FusedDetector from rows to verdicts, against its members, XGBOD and SUOD
	$(RESEARCH) $(BIN)/python -m research.speed.rows

bench-scaling: $(LAB) ## time fits over n, R and threads, and from a file
	$(RESEARCH) $(BIN)/python -m research.speed.scaling cpu

bench-device: $(LAB) ## time fits on a GPU, or on torch's CPU where there is none
	$(PIP) --editable "packages/lpfuse[gpu]"
	$(RESEARCH) $(BIN)/python -m research.speed.scaling device

bench-dask: $(LAB) ## time fits over one, two and four Dask processes
	$(PIP) --editable "packages/lpfuse[dask]"
	$(RESEARCH) $(BIN)/python -m research.speed.scaling dask

bench-faces: $(LAB) ## time finding faces in a video, and what comes after
	$(RESEARCH) $(BIN)/python -m research.speed.faces.detection

# FOLDER      holds tables NAME.npz with X and y (1 = anomaly); by default the public sets of LPFUSE_DATA
leaderboard: $(LAB) ## rank detectors on the tables of a folder: make leaderboard FOLDER=tables
	$(RESEARCH) $(BIN)/python -m research.leaderboard run $(FOLDER)
	$(RESEARCH) $(BIN)/python -m research.leaderboard page

format: $(DEV) ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv and everything generated
	rm -rf $(VENV) build dist packages/*/dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find packages -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CORE): packages/lpfuse/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable packages/lpfuse
	@touch $@ $(BUILT)

# Order-only below: a changed source is compiled, and nothing else is installed anew.
$(BUILT): $(SOURCES) | $(CORE)
	@# An install a moment ago has compiled them, too.
	@test -e $@ && test -z "$$(find $(SOURCES) -newer $@)" || $(STEP) compiled
	@touch $@

$(CLI): $(CORE) packages/lpfuse-cli/pyproject.toml | $(BUILT)
	$(PIP) --editable packages/lpfuse --editable packages/lpfuse-cli
	@touch $@

$(DEV): $(CORE) $(PROJECTS) requirements-dev.txt research/requirements.txt docs/requirements.txt | $(BUILT)
	$(PIP) $(EDITABLE) --editable packages/lpfuse-faces --editable "packages/lpfuse[test]" \
		--editable "packages/lpfuse-cli[test]" --editable "packages/lpfuse-faces[test]" \
		-r requirements-dev.txt -r research/requirements.txt -r docs/requirements.txt
	@touch $@

$(LAB): $(CORE) $(PROJECTS) research/requirements.txt | $(BUILT)
	$(PIP) $(EDITABLE) --editable "packages/lpfuse[pyod]" --editable "packages/lpfuse-faces[cli]" \
		-r research/requirements.txt
	@touch $@
