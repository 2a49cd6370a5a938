"""One process of the fuzzer: draws programs from one seed, checks them, and reduces the first that fails."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.case import Case
from fuzz.check import check
from fuzz.generator import cases
from fuzz.vectors import WIDTHS
from tools.tables import one_line

STOCK = "cpu"  # where Inductor generates code without us

# How many programs are tried to make a failing one smaller, and how many of these hypothesis draws.
MOST_TRIES = 120
DRAWN_TRIES = 80


@dataclass(frozen=True)
class Failure:
    """A program that is wrong, as a Python file, and what is wrong with it."""

    text: str
    why: str


class _Wrong(Exception):
    """For hypothesis: this one fails."""


class Search:
    """Checks what hypothesis draws. `failure` is the smallest program that failed, None if none did.

    A program that stock Inductor on the CPU gets wrong in the same way, also if its graphs break where those of every
    other device break, or if it has the operators that only other devices take, is PyTorch's fault: `as_stock` counts
    these.
    """

    def __init__(
        self,
        device: str,
        running: Path,
        limit: float,
        on_checked: Callable[[], object] = lambda: None,
        vectors: int = 0,
    ) -> None:
        """running: where the text of a program is kept while it runs, for when the process dies of it.
        limit: seconds that one program may take; then the process ends. on_checked: called after each program.
        vectors: how many bits the vectors of its code have; 0 for the host's.
        """
        self._on_checked = on_checked
        self._vectors = vectors
        self.device, self.running, self.limit = device, running, limit
        self.checked = 0
        self.as_stock = 0
        self.failure: Failure | None = None
        self._known: dict[str, str] = {}
        self._tries = 0
        self._most_tries = DRAWN_TRIES
        self._smallest: Case | None = None

    def run(self, number: int, programs: int) -> None:
        """Draws at most `programs` from the seed `number`; ends at the first that fails, once that is small."""

        @seed(number)
        @settings(
            max_examples=programs,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            print_blob=False,
        )
        @given(cases())
        def search(case: Case) -> None:
            if self.why(replace(case, vectors=self._vectors)):
                raise _Wrong

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # programs draw all sorts of them
                search()
        except Exception:  # hypothesis' own, about the failure that is kept here
            if self.failure is None:
                raise
        self._most_tries = MOST_TRIES
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._leave_out()

    def _leave_out(self) -> None:
        """Leaves results and statements out of the failing program for as long as it fails: what hypothesis draws for a
        statement depends on those before, so that it cannot do that.
        """
        while self._smallest is not None:
            smaller = next((case for case in _smaller(self._smallest) if self.why(case)), None)
            if smaller is None:
                return

    def why(self, case: Case) -> str:
        """What is wrong with `case`. Once one has failed, only what fails in the same way counts."""
        text = case.text
        if text not in self._known:
            self._tries += self.failure is not None
            if self._tries > self._most_tries:
                return ""
            self._known[text] = self._checked(case)
        why, last = self._known[text], self.failure
        if not why or (last is not None and _kind(why) != _kind(last.why)):
            return ""
        if last is None or len(text) < len(last.text):
            self.failure, self._smallest = Failure(text, why), case
        return why

    def _checked(self, case: Case) -> str:
        self.running.write_text(case.text)
        try:
            why = self._outcome(case, self.device)
            if why and self.device != STOCK and self._is_wrong_in_stock(case, why):
                self.as_stock += 1
                return ""
            return why
        finally:
            self.running.unlink()
            self.checked += 1
            self._on_checked()

    def _is_wrong_in_stock(self, case: Case, why: str) -> bool:
        cases = dict.fromkeys((case, case.with_unknown_numbers()))
        forms = (False, True) if "wider(" in case.text else (False,)
        return any(_kind(self._outcome(each, STOCK, form)) == _kind(why) for each in cases for form in forms)

    def _outcome(self, case: Case, device: str, elsewhere: bool = False) -> str:
        faulthandler.dump_traceback_later(self.limit, exit=True)
        try:
            return check(case, device, elsewhere)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return one_line(f"{type(error).__name__}: {error}")
        finally:
            faulthandler.cancel_dump_traceback_later()


def _smaller(case: Case) -> Iterator[Case]:
    """`case` without one of its results, then without one of its statements, each without what only that one used."""
    *statements, last = case.body
    results = last.removeprefix("return (").removesuffix(",)").split(", ")
    for place in range(len(results) if len(results) > 1 else 0):
        kept = ", ".join(results[:place] + results[place + 1 :])
        yield replace(case, body=_used([*statements, f"return ({kept},)"]))
    for place in reversed(range(len(statements))):
        yield replace(case, body=_used([*statements[:place], *statements[place + 1 :], last]))


def _used(body: list[str]) -> tuple[str, ...]:
    """`body` without values that nothing behind them names."""
    kept: list[str] = []
    for statement in reversed(body):
        made = re.match(r"(v\d+) = ", statement)
        if made is None or any(re.search(rf"\b{made[1]}\b", later) for later in kept):
            kept.append(statement)
    return tuple(reversed(kept))


def _kind(why: str) -> str:
    """`results`, `gradients`, or the name of an error."""
    return why.split(":")[0]


def main() -> None:
    """`python -m fuzz.search SEED PROGRAMS DEVICE RUNNING LIMIT CHANNEL`; answers by JSON lines to the open file
    CHANNEL, because libraries write to standard output: {"checked": 17, "as stock": 0, "reduces": false}, where
    `reduces` says that a program has failed and smaller ones are tried, and {"text": ..., "why": ...} of it.
    """
    number, programs, device, running, limit, channel = sys.argv[1:]
    os.environ["INDUCTOR_NPU_STRICT"] = "1"
    torch.set_num_threads(1)
    with open(int(channel), "w") as messages:

        def say(message: dict[str, Any]) -> None:
            print(json.dumps(message), file=messages, flush=True)

        search = Search(
            device,
            Path(running),
            float(limit),
            lambda: say(
                {"checked": search.checked, "as stock": search.as_stock, "reduces": search.failure is not None}
            ),
            WIDTHS[int(number) % len(WIDTHS)] if device == "npu" else 0,
        )
        search.run(int(number), int(programs))
        if search.failure is not None:
            say(asdict(search.failure))


if __name__ == "__main__":
    main()
