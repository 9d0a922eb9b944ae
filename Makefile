# Every target brings the environment up by itself: nothing needs to be done before `make demo` or `make test`.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.setup-done

# What decides whether an environment is current. setup.py and the Cython source decide what gets compiled.
SETUP_INPUTS := pyproject.toml constraints.txt $(wildcard setup.py src/moldau/records/*.pyx src/moldau/records/*.pxd src/moldau/records/*.h src/moldau/log/clean/*.pyx src/moldau/client/*/*.pyx src/moldau/client/*/*.px[di] src/moldau/connect/*.pxd src/moldau/connect/*.pyx src/moldau/schemas/*/*.pxd src/moldau/schemas/*/*.pyx)

# Tests start hundreds of processes: without bytecode on disk each of them compiles all of Moldau anew, for half a second
# of a core. It is git-ignored, and `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak sim check format bench docs docs-serve clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## Create .venv with pinned versions and build the native codec; repeatable
	@tools/install_test_programs.sh

$(STAMP): $(SETUP_INPUTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moldau needs Python 3.11 or later; set PYTHON=...")'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --disable-pip-version-check --quiet -c constraints.txt setuptools wheel Cython
	$(PY) -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

demo: setup  ## Send a bank's transactions through a broker and a Spark pipeline that is killed midway; check every alert
	$(VENV)/bin/moldau demo

test: setup  ## Every kind of test in its short form
	$(PY) tools/run_tests.py

soak: setup  ## The same tests with full counts (hours)
	MOLDAU_SOAK=1 $(PY) -m pytest tests

sim: setup  ## Simulate clusters under faults: SEEDS=100 runs many, SEED=17 replays one with its trace
	$(PY) -m moldau.testing.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100) --first $(or $(FIRST),1))

check: setup  ## Format, lint, types, layer order, generated files current, no dead link in the documents
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) tools/generate.py --check
	$(PY) tools/render_configuration.py --check
	$(PY) tools/render_older_books.py --check
	$(PY) tools/render_connector_settings.py --check
	$(PY) tools/render_file_map.py --check
	$(PY) tools/build_site.py

format: setup  ## Format the code and apply the safe lint fixes
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: setup  ## Measure, and print the table of ratios
	$(PY) -m bench

docs: setup  ## Build the documents and the API reference as a site: build/site
	$(PY) tools/build_site.py
	@echo "Open build/site/index.html in a browser. Search works when the site is served: make docs-serve"

docs-serve: docs  ## Build the site and serve it on http://127.0.0.1:8000 (PORT=...)
	$(PY) -m http.server --bind 127.0.0.1 --directory build/site $(or $(PORT),8000)

clean:  ## Remove the environment, caches and compiled files
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf src/*.egg-info src/moldau/records/*.so src/moldau/records/*.c src/moldau/log/clean/*.so src/moldau/log/clean/*.c src/moldau/client/*/*.so src/moldau/client/*/*.c src/moldau/schemas/*/*.so src/moldau/schemas/*/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
