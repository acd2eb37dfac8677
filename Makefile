PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DOCS   := $(VENV)/.docs-ready
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKS  := requirements-torch.lock requirements.lock

.PHONY: setup lock demo test docs wheel lint chromium format clean

setup: $(READY)

# What is locked is installed by its hashes; then whatever another platform or registry lacks, by its version.
$(READY): pyproject.toml constraints.txt $(LOCKS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	for lock in $(LOCKS); do $(PIP) --no-deps --require-hashes -r $$lock || { \
	  [ "$(LOCK)" != strict ] || exit 1; echo "$$lock does not fit here: no hashes" >&2; }; done
ifeq ($(LOCK),strict)
	$(PIP) --no-deps --no-build-isolation -e .
else
	$(PIP) -c constraints.txt torch
	$(PIP) -c constraints.txt -e ".[dev]"
endif
	touch $(READY)

lock: $(READY)
	$(PIP) --dry-run --ignore-installed --report $(VENV)/report.json -c constraints.txt \
	  torch hatchling editables ".[dev]"
	$(BIN)/python .ci/lock $(VENV)/report.json

demo: $(READY)
	$(BIN)/djgnn demo --out demo-run

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The browser tests need Chromium; they are skipped where it cannot be installed.
chromium:
	@command -v chromium >/dev/null 2>&1 || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
	  DEBIAN_FRONTEND=noninteractive timeout 240 sh -c 'o="-qq -o Acquire::http::Timeout=20 \
	    -o Acquire::https::Timeout=20 -o Acquire::Retries=1"; apt-get $$o update && \
	    apt-get $$o install -y --no-install-recommends chromium' >/dev/null 2>&1; } || true

test: lint chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# The pages, in docs/_build/index.html. Only the installation needs a network.
$(DOCS): $(READY)
	$(PIP) -c constraints.txt -e ".[docs]"
	touch $(DOCS)

docs: $(DOCS)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build
	$(BIN)/python docs/_ext/crawl.py docs/_build

# A wheel, built from the sdist, and both tried in an empty environment outside of the tree.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	PYTHON=$(PYTHON) .ci/try-wheel

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo-run dist .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  docs/_build docs/gallery docs/reference/generated
