# Every verb sets up what it needs: a virtual environment in .venv, rebuilt when pyproject.toml changes.
# PYTHON picks the interpreter (3.10 or newer), TORCH the build of PyTorch, MODEL what is served.
PYTHON ?= python3
TORCH ?= torch==2.13.0
MODEL ?= tiny
VENV := .venv
BIN := $(VENV)/bin
# stepaudio2-minicpmo and s3tokenizer are oracles of the parity tests; their own pins (torch, CUDA) are left out.
ORACLES := stepaudio2-minicpmo==0.1.1 s3tokenizer==0.3.0

.PHONY: serve test check fmt lint types imports clean
.DEFAULT_GOAL := check

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Antiphon needs Python 3.10 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || PYTHON=$(PYTHON) scripts/install-system-packages
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps $(ORACLES)
	@touch $@

# Voice frameworks that the tests drive as clients. They want other protobuf and websockets than we do, so they have an
# environment of their own, which borrows everything else from ours: 190 MB, 15 s.
$(VENV)/.clients: $(VENV)/.dev tests/clients/requirements.txt
	$(BIN)/python -m venv --clear $(VENV)/clients
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > $(VENV)/clients/shared.pth
	mv $(VENV)/clients/shared.pth $$($(VENV)/clients/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	$(VENV)/clients/bin/python -m pip install --quiet --requirement tests/clients/requirements.txt
	@touch $@

# Serves MODEL (the built-in tiny model) with a page to try it; stop with Ctrl-C.
serve: $(VENV)/.base
	$(BIN)/antiphon serve $(MODEL)

test: $(VENV)/.clients
	$(BIN)/python -m pytest -n 2

fmt: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

check: lint types imports test

clean:
	rm -rf $(VENV) build dist out
