# Every target makes what it needs from nothing: Python 3.11+, a C++ compiler and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(wildcard core/*.hpp core/bindings/*) CMakeLists.txt pyproject.toml
CXX_SOURCES := core/*.hpp core/bindings/*.cpp core/bindings/*.hpp

.PHONY: demo test lint bench experiments gallery docs wheel sanitize format clean

demo: $(VENV)/.built
	$(BIN)/bridle demo --picture demo-out/convergence.png

test: $(VENV)/.built
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES)

format: $(VENV)/.built
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_SOURCES)

bench: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks

# Pictures, and the numbers behind them, into out/. EXPERIMENTS="--full" for RCV1's size.
experiments: $(VENV)/.built
	$(BIN)/python -m experiments $(EXPERIMENTS)

# The pictures and claims of docs/gallery.md, from what `make experiments` has left in out/.
gallery: $(VENV)/.built
	$(BIN)/python -m experiments.gallery

# The site, into docs/_build/html; a warning is an error.
docs: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

# The development environment: the package in editable mode, built without isolation so that a
# second build only compiles what changed. The stub of the compiled module is for mypy and editors.
$(VENV)/.tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group build --group test --group lint
	touch $@

$(VENV)/.built: $(VENV)/.tools $(CORE)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[plot]"
	$(BIN)/python -m nanobind.stubgen -q -m bridle._core -o src/bridle/_core.pyi
	touch $@

# The wheel, installed where no compiler can be found, and tested there.
WHEEL_BIN := .venv-wheel/bin
wheel: $(VENV)/.tools
	rm -rf dist .venv-wheel
	$(BIN)/python -m build --wheel
	$(PYTHON) -m venv .venv-wheel
	$(WHEEL_BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(WHEEL_BIN)/python -m pip install --quiet --group test
	env PATH="$(CURDIR)/$(WHEEL_BIN)" CC=/nonexistent CXX=/nonexistent \
	  $(WHEEL_BIN)/python -m pip install --quiet dist/bridle-*.whl
	env PATH="$(CURDIR)/$(WHEEL_BIN)" $(WHEEL_BIN)/python -m pytest -n auto

# The kernels and readers under the address and undefined-behaviour sanitizers. Leaks are not
# looked for: the interpreter itself leaves memory to the system at exit.
SANITIZED := .venv-sanitize
sanitize: $(SANITIZED)/.built
	env LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 $(SANITIZED)/bin/python -m pytest -q -n auto $(SANITIZE_TESTS)

SANITIZE_TESTS := $(addprefix tests/test_,$(addsuffix .py,\
  kernels svmlight problem kernel structured ranking stochastic trees multilabel))

$(SANITIZED)/.built: $(CORE)
	$(PYTHON) -m venv $(SANITIZED)
	$(SANITIZED)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(SANITIZED)/bin/python -m pip install --quiet --group build --group test
	$(SANITIZED)/bin/python -m pip install --quiet --no-build-isolation . \
	  --config-settings=cmake.define.BRIDLE_SANITIZE=ON \
	  --config-settings=build-dir=build/sanitize
	touch $@

clean:
	rm -rf build dist .venv .venv-wheel $(SANITIZED) src/bridle/_core.pyi
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/api
