PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test check
.DELETE_ON_ERROR:

# Installed once per pyproject.toml: the stamp is newer than it.
.venv/base: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=23.1' 'setuptools>=77'
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/test: .venv/base
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

demo: .venv/base
	$(BIN)/tirx-bench run gemm_relu

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n auto
