# The commands of the README and CONTRIBUTING. PYTHON chooses the interpreter that .venv is made with.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check docs golden bench clean

demo: .venv/installed
	$(BIN)/pfedeg demo
	@echo "(. .venv/bin/activate puts pfedeg on your PATH)"

test: .venv/dev
	$(BIN)/pytest

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/docs.py --check

docs: .venv/dev
	$(BIN)/python tools/docs.py

golden: .venv/dev
	$(BIN)/python tests/test_golden.py --update

bench: .venv/bench
	$(BIN)/python benchmarks/kernels.py

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.venv/bench: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
