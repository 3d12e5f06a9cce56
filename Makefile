# Every target makes what it needs from nothing: Python 3.11+, a C++ compiler and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CXX_SOURCES := $(shell find core -name '*.[ch]pp')
CORE := $(filter-out core/tests/%,$(CXX_SOURCES)) CMakeLists.txt pyproject.toml

.PHONY: demo test test-core test-threads lint bench experiments gallery docs wheel fuzz sanitize
.PHONY: mutants format clean

demo: $(VENV)/.built
	$(BIN)/bridle demo --picture demo-out/convergence.png

test: $(VENV)/.built test-core
	$(BIN)/python -m pytest -n auto

# The C++ library and its tests: no Python, no nanobind.
test-core: build/core/.tested
test-threads: build/threads/.tested  # under the thread sanitizer
build/threads/.tested: CORE_OPTIONS := -DBRIDLE_SANITIZE=thread

.PHONY: build/core/.tested build/threads/.tested
build/core/.tested build/threads/.tested: $(VENV)/.tools
	$(BIN)/cmake -S . -B $(@D) -G Ninja -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN))/ninja" \
	  -DBRIDLE_PYTHON=OFF $(CORE_OPTIONS)
	$(BIN)/cmake --build $(@D)
	$(BIN)/ctest --test-dir $(@D) --output-on-failure

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

# Do the tests find bugs? Those in mutants/planted.toml are planted one at a time, in copies of this
# folder. MUTANTS="--only NAME", "--list", "--jobs 16": see python -m mutants --help.
mutants: $(VENV)/.built
	$(BIN)/python -m mutants $(MUTANTS)

# The site, into docs/_build/html; a warning is an error.
docs: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

# The development environment: the package in editable mode, built without isolation so that a
# second build only compiles what changed. The stubs of the compiled module are for mypy and editors:
# a folder beside it, which Python passes over since it holds no code.
$(VENV)/.tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group build --group test --group lint
	touch $@

$(VENV)/.built: $(VENV)/.tools $(CORE)
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[plot]"
	rm -rf src/bridle/_core src/bridle/_core.pyi
	$(BIN)/python -m nanobind.stubgen -q -r -m bridle._core -O src/bridle
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

# Inputs that nobody means well with, a minute for each target, the same in every run. More of them:
# make fuzz FUZZ="--seconds 3600 --seed 7", or FUZZ="readers --inputs 100000"; see fuzz/__init__.py.
FUZZ ?= --seconds 60
fuzz: $(VENV)/.built
	$(BIN)/python -m fuzz $(FUZZ)

# The kernels and readers under the address and undefined-behaviour sanitizers, in the tests and in a
# short fuzz. Leaks are not looked for: the interpreter itself leaves memory to the system at exit.
# What may be in memory is not tested: the sanitizer's own book-keeping is.
SANITIZED := .venv-sanitize
SANITIZER = LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=8192
SANITIZE_FUZZ ?= --inputs 1000 --seconds 60 --patience 120
SANITIZE_TESTS ?= $(addprefix tests/test_,$(addsuffix .py,\
  kernels svmlight problem kernel structured ranking stochastic trees multilabel arrow streamed model_io \
  hostile_core hostile_models hostile_matrices))
sanitize: $(SANITIZED)/.built
	env $(SANITIZER) $(SANITIZED)/bin/python -m pytest -q -n auto $(SANITIZE_TESTS) \
	  --deselect tests/test_streamed.py::test_the_promise_about_memory_is_kept
	env $(SANITIZER) $(SANITIZED)/bin/python -m fuzz $(SANITIZE_FUZZ)

$(SANITIZED)/.built: $(CORE)
	$(PYTHON) -m venv $(SANITIZED)
	$(SANITIZED)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(SANITIZED)/bin/python -m pip install --quiet --group build --group test
	$(SANITIZED)/bin/python -m pip install --quiet --no-build-isolation --editable . \
	  --config-settings=cmake.define.BRIDLE_SANITIZE=address,undefined \
	  --config-settings=build-dir=build/sanitize
	touch $@

clean:
	rm -rf build dist .venv .venv-wheel $(SANITIZED) src/bridle/_core src/bridle/_core.pyi
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/api
