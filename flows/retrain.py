"""Train again with the points of a delivery that is unlike the training data, through all gates.

Run it with `python -m flows.retrain PLACE RESULT` from the project's root; `flows.score`
emits the event that starts it.
"""

from __future__ import annotations

import sys
from typing import Any

from flows.orchestration.embedded_server import begin_run

if __name__ == "__main__" and len(sys.argv) == 3:
    begin_run()  # before Prefect is loaded below, which takes seconds

from prefect import flow, get_run_logger
from prefect.states import Completed

from flows.orchestration import tasks
from flows.pipeline import run_stages
from flows.versioning import stage_runner
from flows.versioning.checkout import alone
from plumbline.core.errors import PlumblineError
from plumbline.serve.score.lend_to_training import keep_lent, lend, take_back


@flow(name="retrain")
def retrain(place: str, result: str) -> Any:
    """Lend a delivery's points to `simulate`, run the pipeline, and release what passes its gates.

    Where it does not pass, fails or is ended, `data/borrowed` is put back as it was: the
    champion stays, and the nightly run is that of before. Where it does, the points are to
    be added by `dvc add`, and both committed.

    Args:
        place, result: the folder of the result in `score.out`; from the event `plumbline.drift`.
    """
    say = get_run_logger().info
    try:
        with alone():
            city = lend(place, result)
            try:
                done: Any = run_stages(None)
            except BaseException:  # Ctrl-C and a cancelled run too
                take_back(city)
                raise
            if not done.is_completed():
                take_back(city)
                say("data/borrowed is as it was")
                return done
            keep_lent(city)
            message = (
                f"{city} lends its points; commit data/borrowed/{city} and {city}.yaml. "
                f"{done.message}"
            )
            return Completed(message=message)
    except PlumblineError as error:
        return tasks.failed(error)


def main() -> int:
    """Run the flow here and now, return the exit code."""
    if len(sys.argv) != 3:
        sys.stderr.write("usage: python -m flows.retrain PLACE RESULT\n")
        return stage_runner.BAD_INPUT
    return tasks.exit_code(
        tasks.run_by_hand(lambda: retrain(sys.argv[1], sys.argv[2], return_state=True))
    )


if __name__ == "__main__":
    sys.exit(main())
