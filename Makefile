# Everything from a bare Python: `make test` and `make demo` set up what they need, once.
PYTHON ?= python3
VENV := .venv
SOAK ?= 300
SEED ?= 0
BIN := $(VENV)/bin
# Stamps live in the venv, so that deleting it is all it takes to start afresh.
SETUP := $(VENV)/.setup
FAST_TRANSFORMERS := $(VENV)/.fast-transformers

.DEFAULT_GOAL := help
.PHONY: help setup fast-transformers test lint format demo soak clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## install musicgen and its tools into .venv (PYTHON=python3.12 chooses the Python)

fast-transformers: $(SETUP) ## build the optional pytorch-fast-transformers backend, again if it failed
	tools/install-fast-transformers.sh
	@touch $(FAST_TRANSFORMERS)

test: $(FAST_TRANSFORMERS) lint ## check style and types, then run the tests (ARGS="-k spe" goes to pytest)
	$(BIN)/python -m pytest -n auto --dist loadfile $(ARGS)

lint: $(SETUP) ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(SETUP) ## put the style right where a tool can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

demo: $(SETUP) ## write, draw, play and judge music with the built-in models, to demo/
	$(BIN)/musicgen demo out=demo

soak: $(SETUP) ## attack every command with random faults (SOAK=2h or SOAK=600, in seconds; SEED=1; see docs/reliability.md)
	nice -n 5 $(BIN)/python -m soak seconds=$(SOAK) seed=$(SEED)

clean: ## remove caches, builds and the demo; .venv stays
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist demo
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "musicgen needs Python 3.10 to 3.13; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(SETUP): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "installing musicgen and its tools into $(VENV) (some minutes the first time)"
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev]'
	@touch $@

# The script succeeds without the backend where it cannot be built (but not under CI), so it is tried once.
$(FAST_TRANSFORMERS): $(SETUP)
	tools/install-fast-transformers.sh
	@touch $@
