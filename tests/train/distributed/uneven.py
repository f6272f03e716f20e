"""One of two processes of `plumbline train`; the second finds a quarter of the first's memory free."""

from __future__ import annotations

import os
import sys

from plumbline import __main__ as program
from plumbline.train.fit import auto_batch_size


def main() -> None:
    """Train in the working directory, as the variables of torchrun say."""
    auto_batch_size.free_bytes = lambda gpu: int(20e6 / 4 ** int(os.environ["RANK"]))
    sys.argv = ["plumbline", "train"]
    program.main()
