# Three commands do everything on a machine that has Python 3.11+ and make:
#   make demo   the main job: a table, a figure and a report on digits and Gaussian XOR
#   make test   lint, format, types, tests, and the README's own code
#   make docs   the site, in docs/_build/html; a warning is an error
# Beside them, `make build` makes sdist and wheel in dist/, and `make test-lowest` runs the tests
# with the lowest versions of all libraries.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/.installed-for-tests

LOWEST := .venv-lowest

.PHONY: demo test test-lowest lint docs build clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(TOOLS) lint
	$(BIN)/python -m pytest -n 2

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
	$(BIN)/python -m build --outdir dist

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf build dist docs/_build docs/generated docs/gallery $(VENV) $(LOWEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis
