# Every target does all missing set-up by itself; see tools/setup.sh. `make -j2` makes the archive beside the checks.
# Not named PYTHON: make would pass it on to setup.sh, where PYTHON is the one that the user chooses.
VENV_PYTHON := .venv/bin/python
# Most tests wait for servers: three at a time keep two cores busy, each worker with servers of its own. A file's tests
# stay together, and the files in their order: by themselves, xdist would leave the longest test for the end.
WORKERS := 3
PYTEST = $(VENV_PYTHON) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 15

# A run starts a thousand Python programs. Where this is set, each would compile this project's code again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup packages classes quick test whole record chaos soak check demo bench lock hooks clean

help:
	@echo "make setup   virtual environment, locked packages, jars"
	@echo "make demo    the product in a minute, on real servers of its own"
	@echo "make quick   lint and the tests that need no server, in a minute or two"
	@echo "make test    all checks and tests, a sixth of the long ones (SEED=n repeats a run, ARGS=... goes to pytest)"
	@echo "make whole   the same with all long ones"
	@echo "make chaos   whole chains under faults, judged and audited (SOAK=1: for an hour)"
	@echo "make soak    all tests with their long counts"
	@echo "make record  make whole, and record which tests are long"
	@echo "make check   format, lint, types and layers only"
	@echo "make bench   all benchmarks, results in bench/RESULTS.md"
	@echo "make hooks   check format, lint and layers before each commit"
	@echo "make lock    lock the newest versions of all packages and jars"

setup: packages classes

packages:
	@sh tools/setup.sh

classes: packages
	@sh tools/class_archive.sh

check: packages
	@$(VENV_PYTHON) tools/check.py

quick: setup
	@.venv/bin/ruff check --quiet .
	@ENRICH_TEST_SEED=$(SEED) $(VENV_PYTHON) -m pytest -q -n $(WORKERS) --dist loadfile tests/unit $(ARGS)

test: setup check
	@ENRICH_TEST_SEED=$(SEED) $(PYTEST) --in-turn $(ARGS)

whole: setup check
	@ENRICH_TEST_SEED=$(SEED) $(PYTEST) $(ARGS)

record: setup check
	@ENRICH_TEST_SEED=$(SEED) $(PYTEST) --record-long $(ARGS)

chaos: setup
	@ENRICH_TEST_SOAK=$(SOAK) ENRICH_TEST_SEED=$(SEED) $(VENV_PYTHON) -m pytest -q tests/chaos/chain $(ARGS)

soak: setup check
	@ENRICH_TEST_SOAK=1 ENRICH_TEST_SEED=$(SEED) $(PYTEST) $(ARGS)

demo: setup
	@$(VENV_PYTHON) -m enrich demo

bench: setup
	@$(VENV_PYTHON) -m bench --all

lock: setup
	@sh tools/lock.sh

hooks:
	@git config core.hooksPath tools/hooks

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
