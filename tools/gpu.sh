#!/usr/bin/env bash
# What is done on a machine with an NVIDIA GPU, in one go: provider `cuda`.
#
#   tools/gpu.sh                                     build, tests, sanitizer, bench, in this order
#   tools/gpu.sh build bench                         these parts
#   tools/gpu.sh build distributed                   with two GPUs: collectives, DDP and FSDP2 over NCCL
#   tools/gpu.sh tests -- -x -q tests/compile        with these arguments for pytest, after --
#   BENCH="--groups kernels" tools/gpu.sh bench      with these for python -m benchmarks.gpu
#
# Each part has a log in $OUT (build/gpu); bench leaves gpu.json and gpu.md there, too. A part that fails ends no other.
# Seconds that a part may take: BUILD_SECONDS, TESTS_SECONDS, SANITIZER_SECONDS (of each tool), BENCH_SECONDS.
# TOOLS names the sanitizer's tools, PROGRAMS the programs of tools/golden_kernels.py, PYTHON the interpreter.
set -u
cd "$(dirname "$0")/.." || exit 2
ROOT=$PWD
OUT=${OUT:-$ROOT/build/gpu}
PYTHON=${PYTHON:-python3}
TOOLS=${TOOLS:-memcheck racecheck initcheck}
mkdir -p "$OUT"
export INDUCTOR_NPU_PROVIDER=${INDUCTOR_NPU_PROVIDER:-cuda} PYTHONUNBUFFERED=1 PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH}

PARTS=()
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    build | tests | sanitizer | bench | distributed) PARTS+=("$1"); shift ;;
    *) echo "tools/gpu.sh: no part $1: build, tests, sanitizer, bench or distributed, then -- and arguments for pytest" >&2; exit 2 ;;
  esac
done
[ ${#PARTS[@]} -gt 0 ] || PARTS=(build tests sanitizer bench)
PYTEST=("$@")
[ ${#PYTEST[@]} -gt 0 ] || PYTEST=(-q --quick tests/compile)

build() {
  "$PYTHON" -m pip install --no-deps --no-build-isolation --no-index --disable-pip-version-check -q -e . ||
    "$PYTHON" setup.py -q egg_info || return # its entry points are found beside the package, on PYTHONPATH
  timeout "${BUILD_SECONDS:-300}" "$PYTHON" -m inductor_npu.device
}

tests() {
  OMP_NUM_THREADS=1 INDUCTOR_NPU_STRICT=1 timeout "${TESTS_SECONDS:-300}" "$PYTHON" -m pytest "${PYTEST[@]}"
}

distributed() {
  OMP_NUM_THREADS=1 INDUCTOR_NPU_STRICT=1 timeout "${TESTS_SECONDS:-300}" "$PYTHON" -m pytest -q --quick \
    tests/distributed/test_collectives.py tests/distributed/test_streams.py tests/distributed/test_training.py \
    tests/distributed/test_compiled.py tests/distributed/test_random_programs.py
}

golden() {  # without caching allocators, whose blocks hide what is out of bounds or was never written
  # shellcheck disable=SC2086
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 TORCHINDUCTOR_COMPILE_THREADS=1 TORCHINDUCTOR_CACHE_DIR=$CACHES/inductor \
    TRITON_CACHE_DIR=$CACHES/triton timeout "${SANITIZER_SECONDS:-120}" "$@" "$PYTHON" tools/golden_kernels.py ${PROGRAMS:-}
}

sanitized() {  # the tools run side by side; each prints into a file of its own first
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  CACHES=$(mktemp -d)
  echo "== without a sanitizer"
  local tool failed=0 pids=()
  golden env || failed=1
  for tool in $TOOLS; do
    golden "$sanitizer" --tool "$tool" --target-processes application-only --error-exitcode 9 --print-limit 20 >"$CACHES/$tool.log" 2>&1 &
    pids+=($!)
  done
  for tool in $TOOLS; do
    wait "${pids[0]}"
    local status=$?
    pids=("${pids[@]:1}")
    [ $status -eq 0 ] || failed=1
    echo "== $tool: exit status $status"
    cat "$CACHES/$tool.log"
    echo "$tool: exit status $status; $(grep -E 'SUMMARY' "$CACHES/$tool.log" | tail -1)" >>"$CACHES/summary"
  done
  echo "== summary"
  cat "$CACHES/summary"
  rm -rf "$CACHES"
  return $failed
}

bench() {
  local seconds=${BENCH_SECONDS:-500}
  # shellcheck disable=SC2086
  timeout $((seconds + 60)) "$PYTHON" -m benchmarks.gpu --out "$OUT/gpu.json" --seconds "$seconds" ${BENCH:-}
}

SUMMARY=()
for part in "${PARTS[@]}"; do
  echo "== $part"
  began=$SECONDS
  run=$part
  [ "$part" = sanitizer ] && run=sanitized
  "$run" 2>&1 | tee "$OUT/$part.log" | if [ "$part" = bench ]; then grep -E --line-buffered '^ *[0-9]+ s |^ +[a-z]+: Case|^Measured|^Saved'; else tail -n 15; fi
  status=${PIPESTATUS[0]}
  SUMMARY+=("$part: exit status $status after $((SECONDS - began)) s; $(grep -vE '^\s*$' "$OUT/$part.log" | tail -1 | cut -c1-160)")
done
echo "== summary"
printf '%s\n' "${SUMMARY[@]}" | tee "$OUT/summary.log"
! printf '%s\n' "${SUMMARY[@]}" | grep -qv 'exit status 0 '
