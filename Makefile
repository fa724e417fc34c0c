# Two commands do everything on a machine that has git, make and Python >= 3.11:
#   make demo    runs the main job            make test    runs every check
# Both build .venv first, if it is missing, half-built, moved or older than pyproject.toml.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# The stamp's name holds the folder, so a moved checkout is set up again.
HERE   := $(shell pwd | cksum | cut -d' ' -f1)
DEMO   := $(VENV)/.demo-$(HERE)
DEV    := $(VENV)/.dev-$(HERE)

# Nothing installed outside .venv may be seen.
unexport PYTHONPATH PYTHONHOME
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench clean

demo: $(DEMO)
	$(BIN)/python -m tggm demo

test: lint
	$(BIN)/python -m pytest -n 2

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(DEV)
	$(BIN)/python benchmarks/special.py

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# A development set-up serves the demo too; neither tears the other down.
$(DEMO): pyproject.toml
	@test -e $(DEV) || { $(call venv,demo); }
	@touch $@

$(DEV): pyproject.toml
	@$(call venv,dev)
	@touch $@ $(DEMO)

# A virtual environment that does not start is built anew; one that does is only completed.
venv = echo "Setting up $(VENV) [$(1)] ..." && \
	{ $(BIN)/python -m pip --version >/dev/null 2>&1 && ls $(VENV)/.*-$(HERE) >/dev/null 2>&1 \
	  || $(PYTHON) -m venv --clear $(VENV); } && \
	$(BIN)/python -m pip install --quiet --editable '.[$(1)]'
