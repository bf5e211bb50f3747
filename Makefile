# setup   a ready .venv in the clone          up            run Boilerhouse on this machine
# test    everything; CI runs this            check         format, lint, types, layers, fresh files, fast tests
# gen     write the generated files           bench / soak  measure / long fault runs
# cluster, cluster-down, e2e                  a real Kubernetes node for tests, and the suite on it
# Only git, make and Python >= 3.11 are assumed; uv is brought along into .tools.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
PYTHON ?= python3
UV := .tools/bin/uv
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS = never
export UV_NO_PROGRESS = 1

.PHONY: help setup up test check gen lock bench soak cluster cluster-down e2e

help:
	@sed -n '1,5s/^# //p' Makefile

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Boilerhouse needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv .tools 2>/dev/null || { echo "python3 cannot make a virtual environment: install the package python3-venv" >&2; rm -rf .tools; exit 1; }
	@.tools/bin/pip install --quiet --disable-pip-version-check 'uv>=0.13.7'

.venv/.synced: requirements.lock pyproject.toml | $(UV)
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip sync --quiet --require-hashes requirements.lock
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

setup: .venv/.synced

up: setup
	@$(BIN)/boilerhouse up $(ARGS)

gen: setup
	@$(BIN)/python -m boilerhouse.main gen

# Not part of a day's work: resolve the dependencies anew.
lock: $(UV)
	$(UV) pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate --all-extras --group dev --group bench pyproject.toml -o requirements.lock
