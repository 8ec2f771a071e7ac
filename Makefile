# Each target does its own set-up: a fresh clone needs Python 3.11 or later with pip, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Folders have the names of some targets.
.PHONY: demo site lowest light suite test long lint fuzz processors scripts performance clean

# virtualenv stands in where the system's Python comes without the venv module.
# torch goes first: with it in place no other package can pull in a different build. Byte code of
# all modules takes half of an installation: each import makes what it needs.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV) || ($(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV))
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/coupledgp demo --output demo-report

# The documentation: notebooks run, every public name has a page, and warnings are errors.
site: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	$(BIN)/python -m sphinx -E -b html -c docs -j 2 -W --keep-going . site/html

# The oldest versions that pyproject.toml allows, in an environment of their own; their own dependencies are newer, and warn.
LOWEST := .venv-lowest
lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --constraint constraints-lowest.txt torch
	$(LOWEST)/bin/pip install --quiet --constraint constraints-lowest.txt --editable ".[cli,geo,torch]" hypothesis pytest pytest-xdist pyyaml
	$(LOWEST)/bin/pytest -n 2 -W ignore::DeprecationWarning tests/tables/test_codes.py tests/tables/test_encoding.py tests/tables/test_globe.py tests/tables/test_summaries.py tests/couplings tests/features tests/kernels tests/likelihoods tests/test_docstring_examples.py

# An installation without torch, in an environment of its own: PYTHON=python3.14 for another Python.
LIGHT := .venv-light
light:
	$(PYTHON) -m venv --clear $(LIGHT)
	$(LIGHT)/bin/pip install --quiet --editable ".[cli,geo,netcdf]" hypothesis mpmath pytest
	$(LIGHT)/bin/pytest -m "" tests/test_light_install.py tests/core/test_passes.py tests/core/test_sources.py tests/tables/test_codes.py tests/tables/test_encoding.py tests/tables/test_globe.py tests/tables/test_summaries.py tests/fields tests/graphs/test_graph.py tests/graphs/test_products.py tests/cli tests/time

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

suite: $(VENV)/.installed
	$(BIN)/pytest -n 2

# mypy takes one core for a minute: it runs beside the suite.
test: $(VENV)/.installed
	$(MAKE) --no-print-directory --jobs 2 lint suite

# Tests that `make test` leaves out: benchmarks, wheels, fuzz, other processors, examples of the docs.
long: $(VENV)/.installed
	$(BIN)/pytest -n 2 -m long

# Mutants of model files, tables, graphs and meshes.
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz 2000 --seed 1

# The whole suite with the instructions of other processors; before a release.
processors: $(VENV)/.installed
	$(BIN)/python -m tests.processors

# Every script of benchmarks/ in its smallest run, with its default options otherwise.
scripts: $(VENV)/.installed
	$(BIN)/python -m benchmarks.smallest

# All comparisons with peers; see benchmarks/RESULTS_PERFORMANCE.md.
performance: $(VENV)/.installed
	$(BIN)/python -m benchmarks.performance --output performance-results

clean:
	rm -rf $(VENV) $(LOWEST) $(LIGHT) demo-report performance-results site docs/reference build dist *.egg-info
