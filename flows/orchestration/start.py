"""How `make run` begins: what takes seconds and waits for nothing else is set going, before Prefect is loaded."""

from __future__ import annotations

import sys

from flows.orchestration.embedded_server import begin as begin_server
from flows.orchestration.embedded_server import end_leftover
from flows.versioning import checkout, stages


def begin() -> None:
    """Take the checkout for this process, and have Prefect's server and `dvc status` begin their work.

    A busy checkout ends the process, with a message and the exit code for bad input.
    """
    try:
        checkout.keep()
    except checkout.CheckoutBusyError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(stages.BAD_INPUT)
    end_leftover()
    begin_server()
    stages.begin_asking()
