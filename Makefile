# Every target makes what it needs from nothing: Python 3.11+, a C++ compiler and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(wildcard core/*.hpp core/bindings/*) CMakeLists.txt pyproject.toml

.PHONY: demo test lint bench wheel sanitize format clean

demo: $(VENV)/.built
	$(BIN)/bridle demo --picture demo-out/convergence.png

test: $(VENV)/.built
	$(BIN)/python -m pytest

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror core/*.hpp core/bindings/*.cpp core/bindings/*.hpp

bench: $(VENV)/.built
	$(BIN)/python -m benchmarks

format: $(VENV)/.built
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i core/*.hpp core/bindings/*.cpp core/bindings/*.hpp

# The development environment: the package in editable mode, built without isolation so that a
# second build only compiles what changed.
$(VENV)/.tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group build --group test --group lint --group bench
	touch $@

$(VENV)/.built: $(VENV)/.tools $(CORE)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[plot]"
	touch $@

clean:
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
