# make demo        run the demo on data of this machine
# make test        run all tests, with real peers if they are installed
#
# make test-fast   run the quick tests: no programs, peers or attacks, and no coverage
# make interop     run only the tests with real peers
# make chaos       run only attacks, faults, and cancellation everywhere
# make mutants     check that the tests notice a single fault: make mutants MUTANTS="--count 40 --seed 7"
#
# Each target first installs what it needs into .venv. Other targets: lint types docs bench wheel clean.
# Options for pytest: make test PYTEST="-k lease". Another Python: make test-3.13 uses a second
# environment and skips the tests with real peers.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Tests run in one process more than there are cores: some of them wait for the clock.
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 1)
PARALLEL := -n $(WORKERS) --dist worksteal

.PHONY: demo test test-fast without-peers interop chaos mutants lint types docs bench wheel peers clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# All tests with coverage, then a check of its limits (scripts/check_coverage.py).
test: $(VENV)/.test peers
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PARALLEL) $(PYTEST)
	$(BIN)/coverage combine --quiet
	$(BIN)/python scripts/check_coverage.py

test-fast: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m "not (interop or chaos or programs)" $(PYTEST)

without-peers: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m "not interop" $(PYTEST)

# The tests without peers on Python 3.N, in a separate environment.
test-3.%:
	$(MAKE) VENV=.venv-3.$* PYTHON=python3.$* without-peers

interop: $(VENV)/.test peers
	$(BIN)/python -m pytest $(PARALLEL) -m interop $(PYTEST)

chaos: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m chaos $(PYTEST)

# Makes single changes to the tables of legal events and to copies of the package, and checks that a
# test fails.
mutants: $(VENV)/.test
	$(BIN)/python scripts/table_mutants.py
	$(BIN)/python scripts/mutants.py $(MUTANTS)

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.lint $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.test
	sh benchmarks/setup.sh
	$(BIN)/python -m benchmarks $(BENCH)

# Installs the wheel into a new environment and tests it from an empty directory.
wheel: $(VENV)/.test
	sh scripts/check_wheel.sh $(BIN)/python

# Installs real peers in other languages if possible. Otherwise their tests name what is missing and are
# skipped. With INTEROP=required missing peers are a failure.
peers:
	@sh tests/interop/setup.sh || [ "$$INTEROP" != required ]

clean:
	rm -rf $(VENV) build dist docs/_build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A separate file marks that the environment exists: $(BIN)/python is a link to the python of the
# system, and touch and make follow links.
$(VENV)/.made: scripts/make_venv.sh
	sh scripts/make_venv.sh $(VENV) $(PYTHON)
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	$(PIP) install --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	$(PIP) install --editable '.[test,peers]'
	@touch $@

$(VENV)/.lint: $(VENV)/.made pyproject.toml
	$(PIP) install --editable '.[lint,test]'
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	$(PIP) install --editable '.[docs]'
	@touch $@
