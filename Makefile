# make demo        run the demo on data of this machine: demo-messaging, and demo-pipeline with Spark
# make test        run all tests, with real peers if they are installed
#
# make test-fast   run the quick tests: no programs, peers or attacks, and no coverage
# make interop     run only the tests with real peers
# make chaos       run only attacks, faults, and cancellation everywhere; and the bad days
# make bad-days    run the bad days: pipelines and their parts, whose programs are killed, for a quarter of an hour
# make kills       kill -9 a hundred times on each path from a file to Spark's sink, and print what was lost; one
#                  of them for a short time: make kills KILLS=20 PATHS=tests/spark/bad_days/test_kill.py
# make mutants     check that the tests notice a single fault: make mutants MUTANTS="--count 40 --seed 7"
#
# make bench-kafka read the same events with Spark out of a collector and out of Kafka: a part of make bench
#
# Each target first installs what it needs into .venv. Other targets: lint types docs bench wheel clean.
# Options for pytest: make test PYTEST="-k lease". Another Python: make test-3.14 uses a second
# environment and skips the tests with real peers. A Python that is not installed is unpacked from Debian.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Tests run in one process more than there are cores: some of them wait for the clock.
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 1)
PARALLEL := -n $(WORKERS) --dist worksteal

# Compiled code is kept in the environment, even if PYTHONDONTWRITEBYTECODE is set: each of the
# processes above, and of the hundreds of programs that tests start, would compile all it imports.
CACHED := env PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/pycache

.PHONY: demo demo-messaging demo-pipeline test test-fast without-peers interop chaos bad-days kills mutants lint types docs bench bench-kafka wheel peers clean
.DELETE_ON_ERROR:

# The quick part first. The other part needs PySpark and Java; both are installed into .venv.
demo:
	@$(MAKE) --no-print-directory demo-messaging
	@$(MAKE) --no-print-directory demo-pipeline

demo-messaging: $(VENV)/.demo
	$(BIN)/python examples/demo.py

demo-pipeline: $(VENV)/.spark
	$(BIN)/python examples/log_pipeline.py --output build/pipeline

# All tests, each once, then a check of the limits of coverage (scripts/check_coverage.py). Only those are
# traced that it needs (tests/conftest.py): a test takes twice or three times as long then. Those that start
# Spark come last and one by one: Spark uses all cores itself. Pytest's status 5 says that no test was
# selected.
test: $(VENV)/.test peers
	$(BIN)/coverage erase
	$(CACHED) $(BIN)/coverage run -m pytest $(PARALLEL) -m traced $(PYTEST) || [ $$? = 5 ]
	$(CACHED) $(BIN)/python -m pytest $(PARALLEL) -m "not (traced or jvm or bad_days)" $(PYTEST) || [ $$? = 5 ]
	$(CACHED) $(BIN)/python -m pytest -m "jvm and not bad_days" $(PYTEST) || [ $$? = 5 ]
	$(BIN)/coverage combine --quiet
	$(BIN)/python scripts/check_coverage.py

test-fast: $(VENV)/.test
	$(CACHED) $(BIN)/python -m pytest $(PARALLEL) -m "not (interop or chaos or programs or bad_days)" $(PYTEST)

without-peers: $(VENV)/.test
	$(CACHED) $(BIN)/python -m pytest $(PARALLEL) -m "not (interop or jvm or bad_days)" $(PYTEST) || [ $$? = 5 ]
	$(CACHED) $(BIN)/python -m pytest -m "jvm and not (interop or bad_days)" $(PYTEST) || [ $$? = 5 ]

# The tests without peers on Python 3.N, in a separate environment.
test-3.%:
	@python=$$(sh scripts/unpack_python.sh 3.$*) && \
		$(MAKE) VENV=.venv-3.$* PYTHON="$$python" without-peers

interop: $(VENV)/.test peers
	$(CACHED) $(BIN)/python -m pytest $(PARALLEL) -m interop $(PYTEST)

chaos: $(VENV)/.test
	$(CACHED) $(BIN)/python -m pytest $(PARALLEL) -m "chaos and not bad_days" $(PYTEST)
	@$(MAKE) --no-print-directory bad-days

# One after the other: each of them has several programs, and many have a gigabyte for Spark.
bad-days: $(VENV)/.test $(VENV)/.connect
	$(CACHED) TEST_SECONDS=300 $(BIN)/python -m pytest -o faulthandler_timeout=350 \
		tests/spark/bad_days tests/logfiles/test_machine_programs.py \
		tests/lumberjack/log_handler/test_machine.py $(PYTEST)

KILLS := 100
PATHS := tests/logfiles/test_machine_programs.py::test_some_days tests/lumberjack/test_kill.py \
	tests/spool/test_kill.py tests/collector/test_kill.py tests/spark/bad_days/test_kill.py \
	tests/spark/sinks/receiving/test_kill.py

kills: $(VENV)/.test
	$(CACHED) KILLS=$(KILLS) TEST_SECONDS=3000 $(BIN)/python -m pytest -o faulthandler_timeout=9500 -rP $(PATHS) $(PYTEST)

# Makes single changes to the tables of legal events and to copies of the package, and checks that a
# test fails.
mutants: $(VENV)/.test
	$(BIN)/python scripts/table_mutants.py
	$(BIN)/python scripts/mutants.py $(MUTANTS)

lint: $(VENV)/.lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.test
	$(BIN)/mypy

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: $(VENV)/.test
	sh benchmarks/setup.sh
	$(BIN)/python -m benchmarks $(BENCH)
	@$(MAKE) --no-print-directory bench-kafka

# Spark reads the same events out of a collector and out of Kafka, where Java and Maven are there.
bench-kafka: $(VENV)/.test
	sh benchmarks/kafka/setup.sh $(BIN)/python
	$(BIN)/python -m benchmarks.spark.kafka $(KAFKA)

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

# Not quiet: PySpark is a download of 460 MB.
$(VENV)/.spark: $(VENV)/.made pyproject.toml
	@echo "installing PySpark into $(VENV): this takes a minute or two, once"
	$(BIN)/python -m pip --disable-pip-version-check install --editable '.[spark]'
	@touch $@

$(VENV)/.test: $(VENV)/.spark pyproject.toml
	$(PIP) install --editable '.[spark,test,types,peers]'
	@touch $@

# What a client of Spark Connect needs beside PySpark. Apart, as nothing else needs pandas.
$(VENV)/.connect: $(VENV)/.test
	$(PIP) install --target $(VENV)/connect --upgrade 'pandas>=2.2,<3' 'grpcio-status>=1.76' \
		'googleapis-common-protos>=1.71' 'zstandard>=0.25'
	@touch $@

$(VENV)/.lint: $(VENV)/.made pyproject.toml
	$(PIP) install --editable '.[lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	$(PIP) install --editable '.[docs]'
	@touch $@
