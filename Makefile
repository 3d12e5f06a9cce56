# Every target makes what it needs from nothing: Python 3.11+, a C++ compiler and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CXX_SOURCES := $(shell find core -name '*.[ch]pp')
# The package's file has the version, which is compiled in.
CORE := $(filter-out core/tests/%,$(CXX_SOURCES)) CMakeLists.txt pyproject.toml src/bridle/__init__.py

.PHONY: demo test test-core test-threads lint bench experiments gallery docs wheel fuzz sanitize
.PHONY: look mutants format clean lint-release test-oldest test-clang test-aarch64 compile-windows

demo: $(VENV)/.built
	$(BIN)/bridle demo --picture demo-out/convergence.png

test: $(VENV)/.built $(VENV)/.tools test-core
	$(BIN)/python -m pytest -n auto

# The C++ library and its tests: no Python, no nanobind.
test-core: build/core/.tested
test-threads: build/threads/.tested  # under the thread sanitizer
build/threads/.tested: CORE_OPTIONS := -DBRIDLE_SANITIZE=thread

.PHONY: build/core/.tested build/threads/.tested
build/core/.tested build/threads/.tested: $(VENV)/.made
	$(CONFIGURE) -B $(@D) $(CORE_OPTIONS)
	$(BIN)/cmake --build $(@D)
	$(BIN)/ctest --test-dir $(@D) --output-on-failure
CONFIGURE = $(BIN)/cmake -S . -G Ninja -DCMAKE_MAKE_PROGRAM="$(abspath $(BIN))/ninja" -DBRIDLE_PYTHON=OFF
STRICT = $(CONFIGURE) -DCMAKE_COMPILE_WARNING_AS_ERROR=ON

# The core with another compiler and library, and for another processor, emulated; see docs/platforms.md. Debian's
# packages: clang libc++-dev libc++abi-dev g++-aarch64-linux-gnu qemu-user g++-mingw-w64-x86-64.
test-clang: $(VENV)/.made
	$(STRICT) -B build/clang -DCMAKE_CXX_COMPILER=clang++ \
	  -DCMAKE_CXX_FLAGS=-stdlib=libc++
	$(BIN)/cmake --build build/clang
	$(BIN)/ctest --test-dir build/clang --output-on-failure

test-aarch64: $(VENV)/.made
	$(STRICT) -B build/aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_SYSTEM_NAME=Linux \
	  -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	  -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-aarch64;-L;/usr/aarch64-linux-gnu"
	$(BIN)/cmake --build build/aarch64
	$(BIN)/ctest --test-dir build/aarch64 --output-on-failure

# Compiled, not run.
compile-windows: $(VENV)/.made
	$(STRICT) -B build/windows -DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix \
	  -DCMAKE_SYSTEM_NAME=Windows
	$(BIN)/cmake --build build/windows

lint: $(VENV)/.built $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CXX_SOURCES)

# What only a release needs: workflows, citation, metadata, the conda recipe.
lint-release: $(VENV)/.made
	$(BIN)/python -m pip install --quiet --group release
	$(BIN)/zizmor --offline --min-severity medium .github/workflows
	$(BIN)/cffconvert --validate
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/python .ci/recipe

format: $(VENV)/.tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_SOURCES)

bench: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks

# Pictures, and the numbers behind them, into out/. EXPERIMENTS="--full" for RCV1's size.
experiments: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m experiments $(EXPERIMENTS)

# The pictures and claims of docs/gallery.md, from what `make experiments` has left in out/.
gallery: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m experiments.gallery

# Do the tests find bugs? Those in mutants/planted.toml are planted one at a time, in copies of this
# folder. MUTANTS="--only NAME", "--list", "--jobs 16": see python -m mutants --help.
mutants: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m mutants $(MUTANTS)

# The site, into docs/_build/html; a warning is an error.
docs: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

# Its pages as pictures, wide and narrow, light and dark, in out/look; what does not fit is an error. Needs Chromium.
look: docs
	$(BIN)/python docs/_ext/look.py docs/_build/html

# The development environment: the package in editable mode, built without isolation so that a
# second build only compiles what changed. The stubs of the compiled module are for mypy and editors:
# a folder beside it, which Python passes over since it holds no code. The demo needs no more than this, and
# imports a tenth of what it installs: Python compiles that when it is wanted.
$(VENV)/.made: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --no-compile --group build
	touch $@

$(VENV)/.built: $(VENV)/.made $(CORE)
	$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation --editable ".[plot]"
	rm -rf src/bridle/_core src/bridle/_core.pyi
	$(BIN)/python -m nanobind.stubgen -q -r -m bridle._core -O src/bridle
	touch $@

$(VENV)/.tools: $(VENV)/.made
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

# Wheels of the interpreters named in WHEEL_PYTHONS, one for all from 3.12 on, made fit for other Linux systems, audited,
# then installed for each where no compiler can be found, and tested there.
WHEEL_PYTHONS ?= $(PYTHON)
wheel: $(VENV)/.made
	rm -rf dist
	$(BIN)/python -m pip install --quiet --group release
	for python in $(WHEEL_PYTHONS); do .ci/wheel "$$python" || exit 1; done

# The tests with the lowest versions that pyproject.toml allows.
OLDEST := .venv-oldest
test-oldest: $(OLDEST)/.built
	$(OLDEST)/bin/python -m pytest -n auto
$(OLDEST)/.built: $(VENV)/.made $(CORE)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(OLDEST)
	$(BIN)/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct \
	  --config-setting build-dir=build/oldest --group test ".[plot]"
	touch $@

# Inputs that nobody means well with, a minute for each target, the same in every run. More of them:
# make fuzz FUZZ="--seconds 3600 --seed 7", or FUZZ="readers --inputs 100000"; see fuzz/__init__.py.
FUZZ ?= --seconds 60
fuzz: $(VENV)/.built $(VENV)/.tools
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
	rm -rf build dist .venv .venv-wheel .venv-oldest $(SANITIZED) src/bridle/_core src/bridle/_core.pyi
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/api
