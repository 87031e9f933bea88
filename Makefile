# The commands of the README and CONTRIBUTING. PYTHON chooses the interpreter that .venv is made with, DATA the folder
# with fb15k-237-fed3.parquet for `make bench` (without it: a synthetic graph).
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -n auto --dist loadfile

.PHONY: demo federation-demo test test-all test-fuzz check docs notebook picture golden bench curves clean

demo: .venv/installed
	$(BIN)/pfedeg demo
	@echo "(. .venv/bin/activate puts pfedeg on your PATH)"

federation-demo: .venv/flower
	$(BIN)/python -m pfedeg.cli.federation_demo --out runs/federation-demo-$$(date +%H%M%S)

test: .venv/dev
	$(PYTEST)

test-all: test .venv/pykeen
	$(PYTEST) -m full
	$(PYTEST) -m fuzz

test-fuzz: .venv/dev
	$(PYTEST) -m fuzz

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/docs.py --check

docs: .venv/dev
	$(BIN)/python tools/docs.py --run

notebook: .venv/dev
	$(BIN)/python tools/run_notebook.py

picture: .venv/plot
	rm -rf runs/picture
	$(BIN)/pfedeg demo --out runs/picture
	$(BIN)/python tools/readme_picture.py --runs runs/picture --out docs/plots/demo.svg

golden: .venv/dev
	$(BIN)/python tests/training/test_golden.py --update

bench: .venv/bench
	$(BIN)/python benchmarks/kernels.py $(if $(DATA),--data $(DATA)) --json

curves: .venv/plot
	$(BIN)/python benchmarks/curves.py --json docs/plots/points.json --plot docs/plots

.venv/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev,flower]'
	touch $@

.venv/flower: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[flower]'
	touch $@

.venv/bench: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

.venv/pykeen: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[pykeen]'
	touch $@

.venv/plot: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[plot]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
