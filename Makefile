# Commands (git, make and Python >= 3.11 are required):
#   make demo    runs examples/demo.py        make test    runs the checks (make test-all: also the slow ones)
# Both create or repair .venv if it is missing, out of date, moved or damaged (tools/setup_venv.py).

PYTHON ?= python3
BIN    := .venv/bin

# Ignore packages outside .venv and personal settings of Python and pytest.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTEST_ADDOPTS PYTEST_PLUGINS
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-all test-matrix lint style types digits others bench clean venv-demo venv-dev

demo: venv-demo
	@$(BIN)/python examples/demo.py

# Most of the time of a test is compilation, so programs are compiled without optimisation (if the compiler has
# these flags). Reference tables of special functions in double precision, whose last digits depend on the
# compiled code, are compiled with optimisation (DIGITS), and so are plain `pytest` and, in `make test-all`,
# tests/special. All tests of a file run in one worker, which compiles its programs once.
# Programs are stored in .venv: later runs compile only those that changed.
FAST_COMPILE := --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false \
	--xla_llvm_disable_expensive_passes=true --xla_cpu_parallel_codegen_split_count=1
OPTIONAL_FLAG := --xla_cpu_use_fusion_emitters=false
# `make test ISA=SSE4_2` (or AVX, AVX2) compiles for other processors: no test may depend on the last digit.
ISA ?=
ISA_FLAG := $(if $(ISA),--xla_cpu_max_isa=$(ISA))

DIGITS := tests/special/test_reference.py tests/special/test_box_reference.py
PROGRAMS := $(CURDIR)/.venv/programs
USE_CACHE := JAX_COMPILATION_CACHE_DIR="$(PROGRAMS)" JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.02
# The workers use two cores. More BLAS threads would waste up to a third of the processor time.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# mypy and the reference tables run in one process, in parallel with the two workers of all other tests.
test: style
	@mkdir -p -m 700 $(PROGRAMS) && find $(PROGRAMS) -type f -mtime +30 -delete
	@$(MAKE) --no-print-directory -j 2 others digits

others: venv-dev
	@for flags in "$(FAST_COMPILE) $(ISA_FLAG)" "$(filter-out $(OPTIONAL_FLAG),$(FAST_COMPILE)) $(ISA_FLAG)" "$(ISA_FLAG)"; do \
	XLA_FLAGS="$$flags" $(BIN)/python -c "import jax; jax.devices()" 2>/dev/null && break; done; \
	$(USE_CACHE) $(ONE_THREAD) XLA_FLAGS="$$flags" $(BIN)/python -m pytest -n 2 --dist loadfile \
	-k "not (reference and float64)"

digits: types
	$(USE_CACHE) $(ONE_THREAD) XLA_FLAGS="$(ISA_FLAG)" $(BIN)/python -m pytest $(DIGITS) -k float64

# Also the tests marked slow: more cases, all examples and all documentation pages.
test-all: test
	$(USE_CACHE) $(ONE_THREAD) $(BIN)/python -m pytest tests/special
	$(USE_CACHE) $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist loadfile -m slow

lint: style types

style: venv-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: venv-dev
	$(BIN)/mypy

bench: venv-dev
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done
	$(BIN)/python experiments/render.py

# Lowest and newest dependencies on Python 3.11 to 3.13; needs uv and several gigabytes of disk.
test-matrix:
	$(PYTHON) tools/test_matrix.py

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

venv-demo venv-dev: venv-%:
	@$(PYTHON) tools/setup_venv.py $*
