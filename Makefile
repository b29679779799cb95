.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
STAMP := .venv/.installed

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## Make .venv with Skiplane and everything it is built and tested with

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,embedded]'
	touch $@
