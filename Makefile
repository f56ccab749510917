# make demo        the main job, on this machine's own data
# make test        everything, against real peers where they are installed
#
# make test-fast   what takes a moment: no programs, peers, attacks, and no coverage
# make interop     only with the peers
# make chaos       only attacks, faults, and cancellation everywhere
# make mutants     whether the tests notice a single fault: make mutants MUTANTS="--count 40 --seed 7"
#
# All set up what they need in .venv first. The rest: lint types docs bench wheel clean. Options for
# pytest: make test PYTEST="-k lease". Another Python, beside the first: make test-3.13, which leaves
# the peers out.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Tests run in as many processes at once as there are cores.
WORKERS ?= auto
PARALLEL := -n $(WORKERS) --dist worksteal

.PHONY: demo test test-fast without-peers interop chaos mutants lint types docs bench wheel peers clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# The suite under coverage, then the limits of coverage (scripts/check_coverage.py).
test: $(VENV)/.test peers
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PARALLEL) $(PYTEST)
	$(BIN)/coverage combine --quiet
	$(BIN)/python scripts/check_coverage.py

test-fast: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m "not (interop or chaos or programs)" $(PYTEST)

without-peers: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m "not interop" $(PYTEST)

# The suite without the peers on Python 3.N, in an environment of its own.
test-3.%:
	$(MAKE) VENV=.venv-3.$* PYTHON=python3.$* without-peers

interop: $(VENV)/.test peers
	$(BIN)/python -m pytest $(PARALLEL) -m interop $(PYTEST)

chaos: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL) -m chaos $(PYTEST)

# Single changes to a copy of the package, and to each cell of the tables of what is legal, and
# whether a test fails.
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

# The wheel, installed apart and tried from an empty directory.
wheel: $(VENV)/.test
	sh scripts/check_wheel.sh $(BIN)/python

# Real peers of other languages: installed where that can be done, else their tests say what is
# missing and are skipped. INTEROP=required makes their absence a failure.
peers:
	@sh tests/interop/setup.sh || [ "$$INTEROP" != required ]

clean:
	rm -rf $(VENV) build dist docs/_build .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

# A file of its own says that it is there: $(BIN)/python is a link to the python of the system, and
# touch and make follow links.
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
