# Every target sets up .venv by itself, and again only when a requirements file changed.
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
RUN := .venv/.embedded
DEV := .venv/.dev

.PHONY: help setup chat test crash bundles bench lint types contracts fmt pins clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

.venv/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "countermand needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv .venv
	@touch $@

$(RUN): requirements/embedded.txt pyproject.toml | .venv/.created
	@echo "Setting up .venv (once, and when the pins change) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/embedded.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt $(RUN)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

setup: $(DEV) ## set up .venv with everything that development needs

chat: $(RUN) ## talk to the order agent (starts what it needs; nothing to configure)
	@$(BIN)/countermand chat

# Most of a test's time is spent waiting for a server; a file stays in one process.
test: $(DEV) ## all tests, on real servers
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

crash: $(DEV) ## the full crash and soak matrices (slow)
	$(BIN)/python -m pytest --full

bundles: $(DEV) ## record the golden bundles of tests/replay anew
	$(BIN)/python -m tests.replay.make_bundles

bench: $(DEV) ## benchmarks, paired with the reference implementation
	$(BIN)/python benchmarks/saga.py

lint: $(DEV) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV) ## basedpyright, strict, tests included
	$(BIN)/basedpyright

contracts: $(DEV) ## who may import whom
	$(BIN)/lint-imports

fmt: $(DEV) ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

pins: $(DEV) ## make requirements/*.txt anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra embedded -o requirements/embedded.txt pyproject.toml requirements/build.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --all-extras --group dev -c requirements/embedded.txt -o requirements/dev.txt pyproject.toml requirements/build.in

clean: ## remove .venv and caches
	rm -rf .venv dist .pytest_cache .ruff_cache
