# Every target brings the environment up by itself: nothing needs to be done before `make demo` or `make test`.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.setup-done

# What decides whether an environment is current. setup.py and the Cython source decide what gets compiled.
SETUP_INPUTS := pyproject.toml constraints.txt $(wildcard setup.py src/moldau/records/*.pyx src/moldau/records/*.pxd src/moldau/records/*.h src/moldau/log/clean/*.pyx src/moldau/client/*/*.pyx src/moldau/client/*/*.px[di])

# Tests start hundreds of processes: without bytecode on disk each of them compiles all of Moldau anew, for half a second
# of a core. It is git-ignored, and `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak sim check format bench clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Create .venv with pinned versions and build the native codec; repeatable
	@tools/ensure_kcat.sh

$(STAMP): $(SETUP_INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moldau needs Python 3.11 or later; set PYTHON=...")'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --disable-pip-version-check --quiet -c constraints.txt setuptools wheel Cython
	$(PY) -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

demo: setup  ## Start a broker, send a million records through a real client, read them back
	$(VENV)/bin/moldau demo

test: setup  ## Every kind of test in its short form
	$(PY) tools/run_tests.py

soak: setup  ## The same tests with full counts (hours)
	MOLDAU_SOAK=1 $(PY) -m pytest tests

sim: setup  ## Simulate clusters under faults: SEEDS=100 runs many, SEED=17 replays one with its trace
	$(PY) -m moldau.testing.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100) --first $(or $(FIRST),1))

check: setup  ## Format, lint, types, layer order, generated files current
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) tools/generate.py --check
	$(PY) tools/render_configuration.py --check

format: setup  ## Format the code and apply the safe lint fixes
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: setup  ## Measure, and print the table of ratios
	$(PY) -m bench

clean:  ## Remove the environment, caches and compiled files
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf src/*.egg-info src/moldau/records/*.so src/moldau/records/*.c src/moldau/log/clean/*.so src/moldau/log/clean/*.c src/moldau/client/*/*.so src/moldau/client/*/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
