# Five commands do everything on a machine that has Python 3.11+ and make:
#   make demo   the main job: a table, a figure and a report on digits and Gaussian XOR
#   make check  lint, format, types and the quick tests; needs no extras, takes half a minute
#   make test   lint, format, types, all tests with their coverage, and the README's own code
#   make stress the long runs that try to break polycal; hours
#   make docs   the site, in docs/_build/html; a warning is an error
# Beside them, `make build` makes sdist and wheel in dist/ (the wheel of a commit is always the same,
# byte by byte), `make test-lowest` runs the tests with the lowest versions of all libraries, and
# `make results` says how each figure of docs/results.md is made and how long that takes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CHECK_TOOLS := $(VENV)/.installed-for-check
TOOLS := $(VENV)/.installed-for-tests
LOWEST := .venv-lowest

# Tests that need no optional library and fit no large model.
QUICK_TESTS := tests/kernels tests/posterior tests/metrics tests/simulations tests/test_*.py

.PHONY: demo check test test-lowest stress results lint docs build clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

check: $(CHECK_TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -x -m "not slow" $(QUICK_TESTS)

test: $(TOOLS) lint
	$(BIN)/python -m pytest -n 2 --cov

stress: $(TOOLS)
	$(BIN)/python -m stress.forge --cases 100000
	$(BIN)/python -m stress.forge --cases 300 --isolate --kind lightgbm --kind xgboost --kind catboost
	$(BIN)/python -m stress.readers --cases 100000
	$(BIN)/python -m stress.guided --cases 100000
	$(BIN)/python -m stress.properties --cases 20000
	$(BIN)/python -m stress.extremes --times 20
	$(BIN)/python -m stress.faults --times 100
	$(BIN)/python -m stress.cluster --times 100
	$(BIN)/python -m stress.load --rows 1000000
	$(BIN)/python -m stress.mutants --share 0.05

results:
	@$(PYTHON) benchmarks/results.py

lint: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(STAMP): pyproject.toml
	@echo "Installing polycal into $(VENV): a minute, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(CHECK_TOOLS): $(STAMP)
	$(BIN)/python -m pip install --quiet --group check
	touch $@

$(TOOLS): $(STAMP)
	@echo "Installing the test tools and every library that a parent may come from, once."
	$(BIN)/python -m pip install --quiet --group test --group parents --group lint
	touch $@

test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST)/bin/python -m pip install --quiet --constraint .ci/lowest.txt \
		--group test --group parents --editable ".[plot,cli]"
	$(LOWEST)/bin/python -m pytest -n 2

build: $(STAMP)
	$(BIN)/python -m pip install --quiet "build>=1"
	rm -rf dist
	umask 022 && chmod -R u=rwX,go=rX src && \
		SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --outdir dist

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf build dist docs/_build docs/generated docs/gallery $(VENV) $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
