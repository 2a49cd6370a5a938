"""`python -m tests.ascend_seat COMMAND ...`: runs a command at the seat of a user with an Ascend chip."""

from __future__ import annotations

import os
import sys

from tests.ascend_seat.build import build
from tests.ascend_seat.seat import environment

build()
if len(sys.argv) < 2:
    sys.exit("usage: python -m tests.ascend_seat COMMAND ...")
os.execvpe(sys.argv[1], sys.argv[1:], environment())
