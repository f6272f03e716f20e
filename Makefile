# Plumbline. `make run`: from a clone to a map. `make test`: lint and tests. `make help`: the rest.
PYTHON ?= $(shell sh requirements/environment.sh)
VENV ?= .venv
# More arguments for every `pip install`, for example another index. See CONTRIBUTING.md for PyTorch's CPU build.
PIP_ARGS ?=
# Names of extras of pyproject.toml that `make install` adds.
EXTRAS ?=
PYTEST_ARGS ?=
SOAK_ARGS ?=
LOCK_ARGS ?=
BUILD_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# The scripts of the environment first, activated or not: DVC's stages call `plumbline` by name.
export PATH := $(abspath $(BIN)):$(PATH)
# Each stage is a process of its own: without kept bytecode, every one would compile the same libraries for seconds.
unexport PYTHONDONTWRITEBYTECODE
# mypy reads the libraries for a minute, and two seconds where it has done so: kept for every clone of this user.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/plumbline/mypy

# The page of the map, made by other people's tools from web/: built again when something there has changed.
PAGE := src/plumbline/serve/map/page/app.js

.DEFAULT_GOAL := help
.PHONY: help install web wheel images run run-restoration up down test test-quick test-all tests chaos load kernel gpu \
	gpu-wheels docs lint format bench pretrained pretrained-restoration lock sbom clean

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 24

# Also after a `pip install .` by hand: then a copy would run, and not this clone's source code.
install: $(VENV)/.run $(PAGE)  ## Install into .venv, with the page of the map; more commands: EXTRAS="serve torch"
	@PIP_ARGS="$(PIP_ARGS)" $(BIN)/python requirements/install.py --extras $(EXTRAS)

web: $(PAGE)  ## Build the page of the map from web/, where it has changed (needs npm's registry, or one like it)

wheel: $(VENV)/.run $(PAGE)  ## Build the wheel into dist/, with the page of the map
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

IMAGES := serve cpu
images: wheel  ## Build, start and check the images serve and cpu, or IMAGES=gpu (needs podman; BUILD_ARGS for its build)
	BUILD_ARGS="$(BUILD_ARGS)" $(BIN)/python deploy/images.py $(IMAGES)

run: $(VENV)/.run $(PAGE)  ## Run the whole pipeline: simulate ... package, release, map
	$(BIN)/python -m flows.pipeline

run-restoration: $(VENV)/.restoration  ## Run the pipeline of restoration, small: simulate ... package, release, field
	$(BIN)/python -m flows.restoration

up: $(VENV)/.run $(PAGE)  ## Start Prefect's server and a cpu and a gpu worker here, and deploy all (PLUMBLINE_PORT=4200)
	@$(BIN)/python -m flows.orchestration.system up

down:  ## Stop exactly what `make up` started
	@$(BIN)/python -m flows.orchestration.system down

test: $(VENV)/.test $(PAGE)  ## Run all that a change must pass: lint, and the tests but the slow ones beside it
	@$(MAKE) --no-print-directory --jobs 2 tests lint

# Folders whose tests load torch or Prefect, or start programs.
LOADING := serve service release train model compress export validate fields flows realdata benchmarks deploy doctor chaos
test-quick: $(VENV)/.test $(PAGE)  ## Run the tests of reading, preparing and the commands, for each commit
	@$(MAKE) --no-print-directory tests TIER="not slow and not heavy" PYTEST_ARGS="$(LOADING:%=--ignore=tests/%) $(PYTEST_ARGS)"

test-all: $(VENV)/.test $(PAGE)  ## Run everything, before a release: the slow tests too, and more examples
	@$(MAKE) --no-print-directory --jobs 2 tests lint TIER= EXAMPLES=more

# One thread a worker: more would wait for one another. One worker more than cores: some tests wait for a server, or for a
# retry; at most one a family of folders (tests/conftest.py). nproc alone would count what OMP_NUM_THREADS says.
WORKERS := $(shell n=$$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc); echo $$((n < 6 ? n + 1 : 6)))
TIER ?= not slow
EXAMPLES ?= quick
tests: $(VENV)/.test $(PAGE)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist each --max-worker-restart 0 \
		-m "$(TIER)" --hypothesis-profile=$(EXAMPLES) $(PYTEST_ARGS)

chaos: $(VENV)/.test $(PAGE)  ## Kill and break what is at work, and see what holds (docs/faults.md)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m chaos $(PYTEST_ARGS)

lint: $(VENV)/.test  ## Check style, format, types, layers, names, docstrings and keys
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.docs.language
	$(BIN)/python -m tests.docs.keys

format: $(VENV)/.test  ## Rewrite the code in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

BENCHES := train data predict artifacts
bench: $(VENV)/.test $(PAGE)  ## Run the benchmarks, or some of them: BENCHES="train artifacts"; after `make run`
	@for name in $(BENCHES); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit; done

load: $(VENV)/.test  ## Load the service with users, and ask it nonsense; needs locust, schemathesis and clients, which it installs
	# Without hashes: pip would want them of these two as well.
	$(BIN)/python requirements/pins.py requirements/test.lock > $(VENV)/pins.txt
	$(PIP) install $(PIP_ARGS) --quiet --constraint $(VENV)/pins.txt "locust>=2.40,<3" "schemathesis>=4,<5"
	$(PIP) install $(PIP_ARGS) --quiet --target $(VENV)/clients "tritonclient[http]>=2.60,<3"  # needs older libraries
	$(PIP) install $(PIP_ARGS) --quiet --no-deps --target $(VENV)/clients "openapi-python-client>=0.29,<1"  # asks for an older typer
	PYTHONPATH=$(VENV)/clients $(BIN)/pytest tests/service -k "public_client or generated_client"
	$(BIN)/python -m benchmarks.service
	$(BIN)/python -m benchmarks.service.nonsense

# torch brings Triton for GPUs alone, and the lock files are those of its CPU build.
TRITON := triton==3.9.0
KERNEL_TESTS := OMP_NUM_THREADS=1 PYTHONPATH=$(VENV)/kernel $(BIN)/python -m pytest tests/model/attention
kernel: $(VENV)/.test  ## Interpret the Triton kernels of attention on the CPU, and compile them for GPUs (installs Triton, 1 GB)
	test -d $(VENV)/kernel/triton || $(PIP) install $(PIP_ARGS) --no-deps --target $(VENV)/kernel "$(TRITON)"
	TRITON_INTERPRET=1 $(KERNEL_TESTS)/test_triton_kernels.py
	$(KERNEL_TESTS)/test_triton_compiles.py

# In an environment of its own: CUDA builds stand in the place of what the lock files are for.
GPU_VENV ?= .venv-gpu
GPU_BIN := $(if $(DRY),$(BIN),$(GPU_VENV)/bin)
GPU_INSTALL = requirements/gpu.py $(if $(WHEELS),--wheels "$(WHEELS)") --pip-args="$(PIP_ARGS)"
gpu: $(if $(DRY),$(VENV)/.test,$(GPU_VENV)/.gpu)  ## Measure what a CUDA GPU shows, into a dated page (WHEELS=folder: offline; DRY=1: toys on the CPU)
	PATH="$(abspath $(GPU_BIN)):$$PATH" $(GPU_BIN)/python -m benchmarks.gpu $(if $(DRY),--dry) $(GPU_ARGS)
	$(GPU_BIN)/python -m pytest -m gpu -n 4 --dist load

gpu-wheels:  ## Download what `make gpu` installs into WHEELS=folder, with the Python that will install it (gigabytes)
	$(PYTHON) $(GPU_INSTALL) download

$(GPU_VENV)/.gpu: requirements/test.lock requirements/torch.txt requirements/gpu.py pyproject.toml
	@test -x $(GPU_VENV)/bin/python || sh requirements/environment.sh "$(PYTHON)" "$(GPU_VENV)"
	$(GPU_VENV)/bin/python $(GPU_INSTALL) install
	@touch $@

docs: $(VENV)/.test $(PAGE)  ## Check that the tutorials show what their commands print, and build the site into build/docs
	$(BIN)/python -m tests.docs.outputs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# In folders of their own, so that they neither read nor write what `make run` does there.
stages = for stage in simulate ingest prepare train compress export validate gate approve package; do plumbline $$stage || exit; done
PRETRAINED := .plumbline/pretrained
# Checkpoints are outside of .plumbline while it is under way: committed, another clone goes on with them.
pretrained: $(VENV)/.run  ## Make the package that `plumbline predict` uses by default anew; goes on where it was interrupted
	mkdir -p $(PRETRAINED)/.plumbline pretrained/checkpoints
	ln -sfn ../../../pretrained/checkpoints $(PRETRAINED)/.plumbline/checkpoints
	cp pretrained/params.yaml $(PRETRAINED)
	cd $(PRETRAINED) && $(stages)
	rm -rf src/plumbline/pretrained/package src/plumbline/pretrained/model
	cp -r $(PRETRAINED)/data/package src/plumbline/pretrained/package
	mkdir src/plumbline/pretrained/model
	cp $(PRETRAINED)/data/train/model.* src/plumbline/pretrained/model
	rm -rf pretrained/checkpoints

pretrained-restoration: $(VENV)/.restoration  ## Make the package that `plumbline restore` uses by default anew (90 minutes)
	mkdir -p $(PRETRAINED)-restoration
	cp pretrained/restoration.yaml $(PRETRAINED)-restoration/params.yaml
	cd $(PRETRAINED)-restoration && $(stages)
	rm -rf src/plumbline/pretrained/fields
	cp -r $(PRETRAINED)-restoration/data/package src/plumbline/pretrained/fields

# Not after an installation: one with a new dependency in pyproject.toml fails until the lock files have it.
lock: $(BIN)/python  ## Renew the lock files from pyproject.toml (LOCK_ARGS="--upgrade-package NAME")
	$(PIP) install $(PIP_ARGS) --no-deps --require-hashes -r requirements/uv.lock
	$(BIN)/python requirements/lock.py $(LOCK_ARGS)
	@$(MAKE) --no-print-directory sbom

sbom: $(BIN)/python  ## Write the bill of materials of what the service's image has, which the wheel carries
	$(PIP) install $(PIP_ARGS) --no-deps packaging
	$(BIN)/python requirements/sbom.py requirements/serve.lock src/plumbline/sbom/serve.cdx.json

clean:  ## Remove the environment and what tools cached; data, DVC's cache and the registry stay
	rm -rf $(VENV) $(MYPY_CACHE_DIR) .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find src flows tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(PAGE): web/build.py web/package.json web/package-lock.json web/vite.config.js $(wildcard web/src/*) | $(BIN)/python
	PIP_ARGS="$(PIP_ARGS)" $(BIN)/python web/build.py
	@touch $@

$(BIN)/python:
	@sh requirements/environment.sh "$(PYTHON)" "$(VENV)"

# One stamp a lock file: an installation is repeated when what it installs has changed.
$(VENV)/.run: requirements/pipeline.lock requirements/torch.txt pyproject.toml | $(BIN)/python
	$(call install,requirements/pipeline.lock)
	@touch $@

# Each of the following has all of the one before.
$(VENV)/.restoration: requirements/restoration.lock requirements/pipeline.lock requirements/torch.txt pyproject.toml | $(BIN)/python
	$(call install,requirements/restoration.lock)
	@touch $(VENV)/.run $@

$(VENV)/.test: requirements/test.lock requirements/restoration.lock requirements/pipeline.lock requirements/torch.txt pyproject.toml | $(BIN)/python
	$(call install,requirements/test.lock)
	@touch $(VENV)/.run $(VENV)/.restoration $@

# PyTorch stands apart: its CPU build has hashes of its own, and --no-deps keeps the CUDA packages of others out.
install = @PIP_ARGS="$(PIP_ARGS)" $(BIN)/python requirements/install.py $(1)
