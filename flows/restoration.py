"""Run the pipeline of restoration: every stage of `restoration/dvc.yaml`, the release
behind the gate, the showcase.

Run it with `python -m flows.restoration` from the project's root; exit codes are those of
`flows.pipeline`. The deployment of prefect.yaml takes a commit and hands training over to
another pool.
"""

from __future__ import annotations

import sys
from typing import Any

from flows.orchestration.embedded_server import begin_run

if __name__ == "__main__":
    begin_run()  # before Prefect is loaded below, which takes seconds

from prefect import flow

from flows import report
from flows.pipeline import run_alone, run_here
from flows.versioning.families import RESTORATION


@flow(name="restoration")
def restoration(
    commit: str | None = None, elsewhere: dict[str, str] | None = None, limit_s: float | None = None
) -> Any:
    """Make, check and release a model of fields; a failed run gives the reason in its
    state's message.

    Args:
        commit, elsewhere, limit_s: as of the flow `pipeline`.
    """
    return run_alone(None, commit, elsewhere, limit_s, RESTORATION)


def main() -> int:
    """Run the flow here and now, print its outcome, return the exit code."""
    outputs = {"field": str(RESTORATION.folder / report.FIELD)}
    return run_here(lambda: restoration(return_state=True), outputs, RESTORATION)


if __name__ == "__main__":
    sys.exit(main())
