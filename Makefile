# `make help` lists what there is. Everything happens in .venv; nothing outside this folder is written.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 8000
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export SAM_CLI_TELEMETRY := 0
export AWS_EC2_METADATA_DISABLED := true

.DEFAULT_GOAL := help
.PHONY: help run test check lint types unit integration e2e faults eval bench model clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.local ## Set up, start the local cloud, index this repository, ask a question, keep serving (ONCE=1: end; PORT=8000)
	@$(BIN)/strata demo --port $(PORT) $(if $(ONCE),--once,--keep)

test: $(VENV)/.dev model ## Set up and run every test
	$(PYTEST) -n $(WORKERS) --dist loadfile

check: lint types test ## Everything that must be green before a commit

lint: $(VENV)/.dev .venv-sam/.installed ## ruff, import contracts, cfn-lint, sam validate
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/cfn-lint infra/template.yaml
	.venv-sam/bin/sam validate --lint --template infra/template.yaml

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

unit: $(VENV)/.dev ## Tests without a server, and the examples in docstrings
	$(PYTEST) tests/unit layers client infra eval bench

integration: $(VENV)/.dev model ## Tests against real Postgres and moto
	$(PYTEST) tests/integration

e2e: $(VENV)/.dev model ## Tests of the whole local cloud
	$(PYTEST) tests/e2e

faults: $(VENV)/.dev model ## Tests that break things on purpose: 200 seeded runs, 500 changes, long state machines (`make test` has a tenth)
	STRATA_FAULT_RUNS=200 STRATA_FAULT_CHANGES=500 $(PYTEST) tests/faults

eval: $(VENV)/.local model ## Measure the quality of retrieval on small samples, against floors (ARGS="--json")
	$(BIN)/strata eval check $(ARGS)

bench: $(VENV)/.local model ## Measure speed (ARGS="query --json")
	$(BIN)/strata bench $(or $(ARGS),all)

model: $(VENV)/.local ## Fetch and convert the embedding model, once
	@$(BIN)/strata model pull minilm

clean: ## Remove what was installed or generated here, and the local cloud's data
	@if [ -x $(BIN)/strata ]; then $(BIN)/strata down; fi
	rm -rf $(VENV) .venv-sam .strata .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		.coverage coverage.xml htmlcov build dist .aws-sam
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf *.egg-info layers/common/*.egg-info

# --- set-up: a stamp per set of packages, so that a second run installs nothing ---------------------------------------

define require-python
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
		echo "Strata needs Python 3.11, 3.12 or 3.13; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)" >&2; \
		echo "Name another one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "'$(PYTHON)' lacks its venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

$(BIN)/python:
	$(require-python)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.local: requirements/local.txt requirements/layer.txt requirements/client.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --requirement requirements/local.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.local
	$(BIN)/python -m pip install --quiet --requirement requirements/dev.txt
	@touch $@

.venv-sam/.installed: requirements/sam.txt
	$(require-python)
	$(PYTHON) -m venv .venv-sam
	.venv-sam/bin/python -m pip install --quiet --requirement requirements/sam.txt
	@touch $@
