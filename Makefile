.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# Two processes, because that is how many cores the smallest supported runner has.
PYTEST := $(BIN)/pytest -n 2 --dist loadgroup
STAMP := .venv/.installed
# Binaries of another server for `make test-server`; the newest that Debian's packages left.
PG_BIN ?= $(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin)))

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with Skiplane and everything it is built and tested with

$(STAMP): pyproject.toml | .ns/skiplane
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev,embedded]'
	@touch $@

# In Git, but an sdist cannot hold a link to a folder.
.ns/skiplane:
	mkdir -p .ns && ln -s .. $@

.PHONY: up
up: setup ## Run everything here, on an embedded PostgreSQL (ARGS="--help")
	@$(BIN)/skiplane up $(ARGS)

.PHONY: test
test: setup ## Run the tests on a server of their own (ARGS="-k lease")
	$(PYTEST) $(ARGS)

.PHONY: test-server
test-server: setup ## Run what speaks to the database on another server (PG_BIN=/usr/lib/postgresql/15/bin)
	$(if $(PG_BIN),,$(error No server in /usr/lib/postgresql: give PG_BIN))
	SKIPLANE_TEST_PG_BIN=$(PG_BIN) $(PYTEST) $(wildcard $(addprefix tests/,sql races migrations catalog partitions bloat)) $(ARGS)

.PHONY: chaos
chaos: setup ## Kill workers, schedulers and connections for minutes
	$(BIN)/pytest tests/chaos -m long --timeout 1800 $(ARGS)

.PHONY: bench
bench: setup ## Measure what this machine can do (ARGS="--help")
	$(BIN)/skiplane bench $(ARGS)

.PHONY: scaling
scaling: setup ## Compute the tables of docs/scaling.md from the inputs that stand there
	$(BIN)/python bench/scaling.py --write

.PHONY: check
check: setup ## Check layout, lint, types, imports and SQL
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/sqlfluff lint --nocolor --disable-progress-bar schema
	$(BIN)/squawk 'schema/tables/*.sql'

.PHONY: format
format: setup ## Rewrite Python and SQL in the house's layout
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/sqlfluff fix --nocolor --disable-progress-bar schema

.PHONY: clean
clean: ## Remove .venv, caches and what was built
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
