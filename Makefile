# Two commands that a fresh machine needs: `make train` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Torch and numba share two cores with the rest: waiting threads sleep instead of spinning.
export OMP_WAIT_POLICY := PASSIVE
export MPLBACKEND := Agg

.PHONY: help train test pictures lint format types check clean
.DEFAULT_GOAL := help

help: ## Show what there is to make.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

$(VENV)/.train: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e '.[train]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e '.[dev]'
	touch $(VENV)/.train $@

train: $(VENV)/.train ## Train a PPO agent on seeded deals, evaluate it, write a report.
	$(BIN)/python -m agents.quick

test: $(VENV)/.dev ## Run the tests.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests

pictures: $(VENV)/.dev ## Make the README's picture again.
	$(BIN)/python -m qv_env export tests/data/won.json --step 120 --out docs/pictures/table.png

lint: $(VENV)/.dev ## Check style and who imports whom.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(VENV)/.dev ## Rewrite the sources in the project's style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.dev ## Check types.
	$(BIN)/mypy

check: lint types test ## All that CI checks.

clean: ## Remove the virtual environment and what builds leave.
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
