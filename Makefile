# Everything is set up by the targets themselves: `make demo` and `make test` work on a fresh clone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests start many processes: each would compile all modules anew where writing bytecode is turned off.
test test-fast test-long: export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/bytecode
test test-fast test-long: export PYTHONDONTWRITEBYTECODE :=

# What has to hold in both lanes: the normal run has the driver's lane, the long one the engine's as well.
LANES := tests/golden tests/property tests/papers tests/recursion tests/datalog tests/views

.PHONY: setup demo test test-fast test-long page page-test chromium lint format bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)

demo: $(READY)
	@$(BIN)/viewkeeper demo

test: $(READY) chromium page-test
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

test-fast: $(READY)
	$(BIN)/python -m pytest -m 'not engine and not long' --numprocesses 2

test-long: $(READY)
	PYSPARK_SUBMIT_ARGS=pyspark-shell $(BIN)/python -m pytest -m long --timeout=7200
	$(BIN)/python -m pytest --lane engine --numprocesses 2 --dist worksteal --timeout=1800 $(LANES)

# The page that `viewkeeper serve` shows: only who changes it needs Node, what it builds is in the repository.
NODE_READY := page/node_modules/.ready

$(NODE_READY): page/package.json page/package-lock.json
	cd page && npm ci --no-audit --no-fund
	@touch $(NODE_READY)

page: $(NODE_READY)
	cd page && npm run build

page-test: $(NODE_READY)
	cd page && npm run check && npm test

# The tests of the page run in a real browser.
chromium:
	@command -v chromium >/dev/null || { echo "installing chromium for the tests of the page"; \
	  as_root=; test "$$(id -u)" = 0 || as_root=sudo; \
	  $$as_root apt-get update -qq && $$as_root apt-get install -y -qq chromium; }

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

bench: $(READY)
	$(BIN)/python benchmarks/peers.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
