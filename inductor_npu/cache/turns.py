"""Of many processes with the same work, one goes first, and the others wait until it has done it, or has died.

The lock of whoever is first is a file, which its process releases when it ends, however it ends. Locks decide only who
waits, never what is compiled or loaded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from inductor_npu.cache.entry import Key
from inductor_npu.cache.store import CannotLockError, Hold, Store

KIND = "warmup"
# How often whoever waits looks again: at first, and at most. A thousand ranks may share a file server.
_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.05, 1.0
# After so long as a part of what it has waited: that is what a rank loses to not looking sooner.
_POLL_PART = 0.1

log = logging.getLogger(__name__)


class Turns:
    """The turns of this process, for which it waits at most `wait` seconds in all.

    `waited`: seconds in which others went first. `timed_out`: that it waited in vain, and went ahead.
    """

    def __init__(self, wait: float) -> None:
        self.waited = 0.0
        self.timed_out = False
        self._wait = wait

    def take(self, store: Store, work: Key, is_done: Callable[[], bool]) -> Hold | None:
        """Returns when this process may go ahead: with the lock if it is the first to do `work`; None if another one
        has done it, has taken too long, or if files cannot be locked. The lock has to be released.
        """
        began, waited_before = time.monotonic(), self.waited
        while not is_done():
            try:
                hold = store.try_hold(work)
            except CannotLockError as error:
                log.info("nobody waits for anybody, because files cannot be locked: %s", error)
                return None
            if hold is not None:
                if not is_done():
                    return hold
                hold.release()  # done between looking and locking
                return None
            if self.waited >= self._wait:
                self.timed_out = True
                log.warning("another process has been compiling for %.0f s; not waiting any longer", self.waited)
                return None
            elapsed = time.monotonic() - began
            time.sleep(min(max(_POLL_PART * elapsed, _POLL_SECONDS), _LONGEST_POLL_SECONDS))
            self.waited = waited_before + time.monotonic() - began
        return None
