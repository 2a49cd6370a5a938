"""What our launcher saves over that of Ascend's Triton where torch_npu drives the chip: `make bench-ascend-seat`.

Each side is a process of its own with empty caches; the sides take turns. Kernels run over the stand-in for CANN
(tests/ascend_seat), whose own time both sides pay: the difference is the host time of a launcher.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

SIDES = {
    "ours": "",
    "Ascend's Triton": "from inductor_npu.ascend_chip import launcher; launcher._is_plain = lambda _: False",
}
ROUNDS = 3

# Seconds of a first kernel, of one of another signature, and of a call of a compiled function of 256 elements.
_PROGRAM = """
import json, time, torch
torch.npu.init()
{side}
x, y, z = (torch.randn(256).npu() for _ in range(3))

def seconds(function, *arguments):
    began = time.perf_counter()
    function(*arguments)
    torch.npu.synchronize()
    return time.perf_counter() - began

first = torch.compile(lambda a, b: a * 3 + b)
taken = {{"first kernel": seconds(first, x, y)}}
taken["another signature"] = seconds(torch.compile(lambda a, b, c: (a * b + c).relu()), x, y, z)
calls = 300
began = time.perf_counter()
for _ in range(calls):
    first(x, y)
taken["call"] = (time.perf_counter() - began) / calls
torch.npu.synchronize()
print(json.dumps(taken))
"""


def measure(side: str) -> dict[str, float]:
    """Seconds of each step of _PROGRAM. Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryDirectory() as caches:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
            "TRITON_CACHE_DIR": f"{caches}/triton",
            "TRITON_HOME": caches,
            "INDUCTOR_NPU_CACHE_DIR": f"{caches}/ours",
        }
        command = [sys.executable, "-c", _PROGRAM.format(side=SIDES[side])]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints medians of ROUNDS rounds, and their ratio."""
    measure("ours")  # the stand-in keeps what it made of a kernel
    taken: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(ROUNDS):
        for side, rounds in taken.items():
            rounds.append(measure(side))
    print(f"{'':20}{'ours':>12}{'theirs':>12}{'ratio':>8}")
    for step in taken["ours"][0]:
        ours, theirs = (statistics.median(one[step] for one in rounds) for rounds in taken.values())
        print(f"{step:20}{ours:>10.6f} s{theirs:>10.6f} s{ours / theirs:>8.2f}")


if __name__ == "__main__":
    main()
