# make demo    the main job, on this machine's own data
# make test    everything, against real peers where they are installed
# Both set up what they need in .venv first. The rest: lint types docs bench wheel clean.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test lint types docs bench wheel peers clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# The suite under coverage, then the limits of coverage (scripts/check_coverage.py).
test: $(VENV)/.test peers
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(PYTEST)
	$(BIN)/coverage combine --quiet
	$(BIN)/python scripts/check_coverage.py

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
