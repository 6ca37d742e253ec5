# What a fresh machine needs: Python 3.11 or later and a C compiler. Everything else goes into .venv.
# `make` by itself lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
SOURCES := pyproject.toml meson.build $(shell find src -type f -not -path '*/__pycache__/*')

# Tools call each other by name: cython-lint runs pycodestyle.
export PATH := $(abspath $(BIN)):$(PATH)

# A stamp says what is installed, and since when. The demo needs the package alone; tests and benchmarks need
# the tools as well, and then the demo is served too.
PACKAGE := $(VENV)/package.stamp
TOOLS := $(VENV)/tools.stamp

.PHONY: help demo test test-all check lint style types doctests tests engines bench docs gallery browser postgres clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(PACKAGE)  ## a tour: train, evaluate, explain, forget and draw on 400 messages, and a report
	@$(BIN)/deciban demo --folder demo

test: check  ## linters, types, layers, doctests and all tests but the slow ones
	@$(MAKE) --no-print-directory --output-sync --jobs=2 tests engines

test-all: check  ## the same with the slow tests
	@$(MAKE) --no-print-directory --output-sync --jobs=2 tests engines WHICH=

# Tests of clusters and databases share a server each, and so are one process; they wait a lot, so the others run beside.
WHICH = -m "not slow"

tests:
	@echo "== tests"
	@$(BIN)/python -m pytest -q -n auto --dist worksteal $(WHICH) --ignore=tests/engines

engines:
	@echo "== tests of engines"
	@$(BIN)/python -m pytest -q $(WHICH) tests/engines

check: $(TOOLS)
	@$(MAKE) --no-print-directory --output-sync --jobs=2 types style doctests

lint: types style

style:
	@echo "== ruff check"
	@$(BIN)/ruff check .
	@echo "== ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "== cython-lint"
	@$(BIN)/cython-lint src
	@echo "== lint-imports"
	@$(BIN)/lint-imports --no-logo

types:
	@echo "== mypy"
	@$(BIN)/mypy src/deciban

doctests:
	@echo "== doctests of the installed package and of the pages"
	@$(BIN)/python -m pytest -q --doctest-modules --pyargs deciban
	@$(BIN)/python -m pytest -q --doctest-glob='*.md' README.md docs

bench: $(TOOLS)  ## speed and accuracy beside scikit-learn; writes benchmarks/results/
	@$(BIN)/python benchmarks/naive_bayes.py
	@$(BIN)/python benchmarks/gaussians.py
	@$(BIN)/python benchmarks/discriminants.py
	@$(BIN)/python benchmarks/semi_supervised.py
	@$(BIN)/python benchmarks/trees.py
	@$(BIN)/python benchmarks/tables.py
	@$(BIN)/python benchmarks/text_speed.py
	@$(BIN)/python benchmarks/text_accuracy.py
	@$(BIN)/python benchmarks/unequal_texts.py
	@$(BIN)/python benchmarks/spam.py
	@$(BIN)/python benchmarks/prediction_sets.py
	@$(BIN)/python benchmarks/honesty.py
	@$(BIN)/python benchmarks/cold_start.py
	@$(BIN)/python benchmarks/streaming.py
	@$(BIN)/python benchmarks/hashed_text.py
	@$(BIN)/python benchmarks/scale.py
	@$(BIN)/python benchmarks/clusters.py
	@$(BIN)/python benchmarks/databases.py

docs: $(TOOLS)  ## the documentation as pages in site/
	@$(PIP) install '.[docs]'
	@$(BIN)/mkdocs build --strict
	@echo "site/index.html"

gallery: $(TOOLS)  ## draw the pictures of docs/gallery.md anew
	@$(BIN)/python docs/gallery.py

browser:  ## install Chromium (Debian, as root), in which a test looks at the report
	apt-get install -y --no-install-recommends chromium

postgres:  ## install PostgreSQL (Debian, as root), in which tests learn and score; they start a server of their own
	apt-get install -y --no-install-recommends postgresql

clean:  ## remove the environment, builds and caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "== making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("deciban needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(PACKAGE): $(SOURCES) | $(BIN)/python
	@echo "== building and installing deciban"
	@$(PIP) install .
	@touch $@

# The package is built while what it needs is fetched: both take a minute.
$(TOOLS): $(SOURCES) | $(BIN)/python
	@echo "== building and installing deciban with the tools for testing"
	@$(MAKE) --no-print-directory --jobs=2 wheel requirements
	@$(PIP) install --no-deps --force-reinstall build/wheel/deciban-*.whl
	@touch $@ $(PACKAGE)

.PHONY: wheel requirements
wheel:
	@rm -rf build/wheel
	@$(PIP) wheel --no-deps --wheel-dir build/wheel .

requirements:
	@$(BIN)/python tools/requirements.py dev | xargs -d '\n' $(PIP) install
