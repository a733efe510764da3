# Everything is installed into .venv. Outside this folder there is only what every run keeps: its history, and a key, in
# ~/.local/state/augury (or where AUGURY_STATE_DIR says).
# PYTHON=… chooses the interpreter; the first suitable one on the path is taken otherwise.

PYTHON ?=
VENV := .venv
BENCH := .venv-bench
INSTALL := python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PINS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test soak lint bench chaos clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.runtime ## run a real workflow on this machine
	@$(VENV)/bin/python examples/demo.py

test: $(VENV)/.dev ## run the tests
	@$(VENV)/bin/python -m pytest $(ARGS)

soak: $(VENV)/.dev ## simulate runs against an adversary: SEEDS=100000 FIRST=0
	@$(VENV)/bin/python -m tests.simulation.soak --first $(or $(FIRST),0) --seeds $(or $(SEEDS),100000)

lint: $(VENV)/.dev ## check style and types
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .
	@$(VENV)/bin/python -m mypy

chaos: $(VENV)/.dev ## run workflows while something kills their workers, gateway and Redis
	@$(VENV)/bin/python -m tests.chaos $(ARGS)

bench: $(BENCH)/.bench ## measure speed against bars, beside Dask and Ray: ARGS=--quick for a first look
	@$(BENCH)/bin/python benchmarks/run.py $(ARGS)

clean: ## remove everything that the other targets made
	rm -rf $(VENV) $(BENCH) dist benchmarks/out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.runtime: $(PINS)
	@PYTHON="$(PYTHON)" .ci/venv $(VENV)
	@$(VENV)/bin/$(INSTALL) -e .
	@touch $@

# The tools bring the runtime along, so a fresh `make test` installs once.
$(VENV)/.dev: $(PINS)
	@PYTHON="$(PYTHON)" .ci/venv $(VENV)
	@$(VENV)/bin/$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.runtime $@

$(BENCH)/.bench: $(PINS)
	@PYTHON="$(PYTHON)" .ci/venv $(BENCH)
	@$(BENCH)/bin/$(INSTALL) -e '.[bench]'
	@touch $@
