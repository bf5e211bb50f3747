# setup   a ready .venv in the clone          up            run Boilerhouse on this machine
# test    everything; CI runs this            check         lint and the fast tests, within a minute
# lint    format, types, layers, fresh files  coverage      every branch of what decides and builds
# gen     write the generated files           bench / soak  measure / long fault runs
# gameday attacks on a live `up`: what held
# cluster, cluster-down, e2e, image           a real Kubernetes node for tests, the suite on it, our image
# Only git, make and Python >= 3.11 are assumed; uv is brought along into .tools.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
PYTHON ?= python3
# What Boilerhouse runs on, unless PYTHON says: the distribution's build of the same version, if it is
# there. Interpreters made without profile-guided optimisation (pyenv's) are up to a quarter slower.
RUNTIME = $(shell own=/usr/bin/python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	test "$(origin PYTHON)" = file && $$own -c 'import ctypes, sqlite3, ssl' 2> /dev/null && echo $$own || echo $(PYTHON))
UV := .tools/bin/uv
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS = never
export UV_NO_PROGRESS = 1
# Certificates of the system, among them a company's own; SSL_CERT_FILE goes before them. An older pip
# knows neither, and is given the bundle if it fails without.
export UV_SYSTEM_CERTS ?= true
CA_BUNDLE = $(or $(SSL_CERT_FILE),$(firstword $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem)))
# Tests start hundreds of Pythons: each would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up test check fast lint format types layers generated coverage gen lock bench soak gameday cluster cluster-down image e2e binaries

help:
	@sed -n '1,7s/^# //p' Makefile

$(UV):
	@echo 'bringing uv into .tools' >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Boilerhouse needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@$(PYTHON) -m venv .tools 2>/dev/null || { echo "python3 cannot make a virtual environment: install the package python3-venv" >&2; rm -rf .tools; exit 1; }
	@install() { .tools/bin/pip install --quiet --disable-pip-version-check 'uv==0.13.7'; }; \
		install 2> .tools/pip.txt || PIP_CERT='$(CA_BUNDLE)' install || { cat .tools/pip.txt >&2; exit 1; }

.venv/.synced: requirements.lock pyproject.toml | $(UV)
	@echo 'setting up .venv, which takes a minute at most' >&2
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(RUNTIME) .venv
	@$(UV) pip sync --quiet --require-hashes requirements.lock
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

setup: .venv/.synced

up: setup
	@$(BIN)/boilerhouse up $(ARGS)

gen: setup
	@$(BIN)/python -m boilerhouse.main gen

# What needs no test to be seen.
lint: format types layers generated

format: setup
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .

types: setup
	@$(BIN)/mypy --no-error-summary

layers: setup
	@$(BIN)/lint-imports > .venv/layers.txt || { cat .venv/layers.txt; exit 1; }

generated: setup
	@$(BIN)/python -m boilerhouse.main gen --check

# Every branch of decisions and builders, by the tests that are about them.
DECISIONS := tests/unit/engines tests/unit/core/test_difference.py tests/unit/core/test_upkeep.py tests/unit/tenancy/claims tests/unit/tenancy/disruptions tests/unit/tenancy/snapshots/test_build.py tests/unit/tenancy/snapshots/test_keeper.py \
	tests/unit/tenancy/idle/test_explain.py tests/unit/tenancy/idle/test_verdict.py tests/unit/tenancy/instances tests/unit/tenancy/networks tests/unit/tenancy/pools tests/unit/tenancy/postmortems tests/unit/tenancy/triggers tests/unit/tenancy/workloads
coverage: setup
	@$(BIN)/coverage run -m pytest --quiet $(DECISIONS) > .venv/coverage.txt || { cat .venv/coverage.txt; exit 1; }
	@$(BIN)/coverage report > .venv/coverage.txt || { cat .venv/coverage.txt; exit 1; }

# Lint beside the tests: types are longest in coming where nothing is cached.
check: setup
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target lint fast

# What uses no process and takes at most 0.3 s: CONTRIBUTING.md has the rule.
FAST := not processes and not slow and not soak
fast: setup
	@$(BIN)/pytest --quiet --numprocesses=2 --dist=loadfile -m "$(FAST)" $(ARGS)

# In lanes beside each other. A test that uses processes and fails is tried once more by itself.
test: binaries
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint coverage
	@$(BIN)/python -m tests $(ARGS)

# A real Kubernetes to test against: once, some ten minutes, into the user's cache directory.
# Without Go it stays away, and the tests that want it say so.
binaries: setup
	@if command -v go > /dev/null; then $(BIN)/python -m cluster build; fi

cluster: setup
	@$(BIN)/python -m cluster up

cluster-down: setup
	@$(BIN)/python -m cluster down

# The product's image, for the node if it is up; no Docker engine, no registry.
image: setup
	@$(BIN)/python -m cluster image

e2e: setup binaries
	@$(BIN)/pytest -m node $(ARGS)

# The attacks of docs/failure-modes.md against a live `up`, at most ten minutes: what held.
gameday: setup
	@$(BIN)/python -m gameday $(ARGS)

bench: setup
	@$(BIN)/python -m bench $(ARGS)

soak: setup binaries
	@$(BIN)/pytest -m soak $(ARGS)

# Not part of a day's work: resolve the dependencies anew.
lock: $(UV)
	$(UV) pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate --all-extras --group dev --group bench pyproject.toml -o requirements.lock
