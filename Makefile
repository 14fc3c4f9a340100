# Every target starts from nothing: it creates .venv and installs what is missing.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

MINUTES ?= 10
LOWEST ?= tests/core tests/columns tests/models tests/api tests/data tests/scale tests/cli

ALL := plot,report,widget,cli,tables,train,bench,vines,cluster,detect,export,docs,dev
LEAST := plot,report,widget,cli,tables,train,bench,cluster,detect,export

.PHONY: run test test-slow test-lowest fuzz lint docs bench locked clean

run: $(INSTALLED)  ## the main job on a bundled data set: a table and a picture in out/
	$(BIN)/python examples/quickstart.py

test: lint  ## lint, types, all quick tests and doctests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

test-slow: docs  ## only the tests marked slow, and the documentation
	$(BIN)/python -m pytest -q -m slow

test-lowest:  ## quick tests with the lowest versions that pyproject.toml allows, in an environment of its own
	test -x build/lowest/bin/python || $(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install -q -c lowest.txt torch
	build/lowest/bin/python -m pip install -q -c lowest.txt -e '.[$(LEAST)]' pytest hypothesis polars
	OMP_NUM_THREADS=1 build/lowest/bin/python -m pytest -q -o filterwarnings=default -W ignore::DeprecationWarning $(LOWEST)

fuzz: $(INSTALLED)  ## random hostile tables against the laws, for MINUTES; a short one is in `test`
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --minutes $(MINUTES)
	OMP_NUM_THREADS=1 $(BIN)/python tests/data/damage_files.py 2000 $$(date +%j)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/audit.py

docs: $(INSTALLED)  ## the documentation with its gallery, in build/html; a warning is an error
	rm -rf docs/reference/generated
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/html

bench: $(INSTALLED)  ## every benchmark, ratios against the peers in the same run
	status=0; for file in $(filter-out paper/benchmarks/fresh_%,$(wildcard paper/benchmarks/*.py)); do \
		$(BIN)/python $$file || status=1; done; exit $$status

locked:  ## .venv from lock.txt: every file by its hash, but for torch, of which each machine has its build
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q --require-hashes --no-deps -r lock.txt
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e . -e ./paper
	touch $(INSTALLED)

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist out docs/gallery docs/reference/generated

# torch goes first, in the version of constraints.txt: a range would let pip pick the newest build, gigabytes
# of CUDA where a CPU build of this version is at hand.
$(INSTALLED): pyproject.toml paper/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[$(ALL)]' -e ./paper
	touch $@
