# Every target works on a fresh machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check lint types docs bench serve lock clean

demo: $(STAMP)
	$(BIN)/memproxy demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# ruff, mypy, the documentation against the code, then the tests (the architecture check is one of them).
check: lint types docs test

lint: $(STAMP)
	$(BIN)/ruff check memproxy tests
	$(BIN)/ruff format --check memproxy tests

types: $(STAMP)
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python -m memproxy.docs_check

bench: $(STAMP)
	$(BIN)/python -m memproxy.evals.bench

serve: $(STAMP)
	$(BIN)/memproxy serve --config config.example.yaml

# Versions and hashes only: the lock names no index, so it installs from whichever one pip is set up for.
lock: $(STAMP)
	$(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 -c requirements.lock -o requirements-dev.lock

$(STAMP): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
