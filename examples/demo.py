"""The main job, start to end: `make demo`, or `python -m examples.demo [--device cpu]`."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
from pathlib import Path

# A folder of its own, emptied first: compile times are cold ones, and the generated code can be read afterwards.
CACHE = Path(__file__).resolve().parents[1] / "build" / "demo"


def main() -> int:
    """Runs both halves; the exit status is 0 if both came out right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device", default="npu", help="where the compiled code runs: npu (default), or cpu to compare with"
    )
    device = parser.parse_args().device

    shutil.rmtree(CACHE, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(CACHE)  # read when Inductor is first imported
    os.environ["TRITON_CACHE_DIR"] = str(CACHE / "triton")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    import torch
    from rich.console import Console

    from examples import digits, embeddings

    # Dynamo's remark that profiler annotations of optimizers are ignored helps nobody here.
    torch._logging.set_logs(dynamo=logging.ERROR)
    console = Console()
    right = [part.show(console, device) for part in (embeddings, digits)]
    if not all(right):
        console.print("[red]The demo did not come out as it should; see above.")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
