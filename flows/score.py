"""Fetch new deliveries of points, judge them with the champion, and send messages.

Run it with `python -m flows.score` from the project's root. It exits 0, 2 for bad input,
else 1; a delivery that was set aside is told of and fails nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.events import emit_event
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed

from flows.orchestration import embedded_server, tasks
from flows.orchestration.notifications import sink
from flows.versioning import process, stage_runner
from flows.versioning.stage_runner import StageFailedError
from plumbline.core.errors import PlumblineError
from plumbline.core.files import read_json
from plumbline.params import load_params
from plumbline.serve.score.messages import (
    Message,
    drifted,
    mark_called,
    mark_sent,
    places_with_results,
    unsent,
    unsent_aside,
)

ASIDE = "ERROR set aside: "
DRIFT = "plumbline.drift"
SECONDS_TO_SEND = 30.0


@task(retries=1, retry_delay_seconds=5, cache_policy=NO_CACHE, task_run_name="fetch {imported}")
def fetch(imported: str) -> None:
    """Update a source that `dvc import-url` has made: `imported` is its `.dvc` file."""
    say, lines = get_run_logger().info, list[str]()
    code = stage_runner.run_dvc(["update", imported], stage_runner.keeping(lines, say))
    if code:
        raise RuntimeError(
            f"dvc update {imported}: {lines[-1] if lines else f'exit status {code}'}"
        )


@task(retries=0, cache_policy=NO_CACHE, task_run_name="judge")
def judge(dask: str | None = None) -> Any:
    """Judge new deliveries; return what was set aside, or nothing."""
    say, lines = get_run_logger().info, list[str]()
    try:
        if dask is not None:
            tasks.on_dask("score", dask, say)
    except StageFailedError as error:
        return tasks.failed(error)
    code = process.run(
        [sys.executable, "-m", "plumbline", "score"], stage_runner.keeping(lines, say)
    )
    last = lines[-1] if lines else f"exit status {code}"
    if code and not last.startswith(ASIDE):
        return tasks.failed(
            StageFailedError(f"score: {last.removeprefix('ERROR ')}", code, key="score.failed")
        )
    return last.removeprefix("ERROR ") if code else ""


@task(retries=2, retry_delay_seconds=2, cache_policy=NO_CACHE, task_run_name="tell {message.key}")
def tell(message: Message, block: str | None, out: Path) -> None:
    """Send a message and record that it was sent."""
    chosen = sink(block)
    with chosen.raise_on_failure():  # else a mail that nobody took counts as sent
        chosen.notify(message.body, message.subject)
    mark_sent(out, message, block or "the local file")


def call(place: str, result: str, out: Path) -> None:
    """Emit the event that starts `retrain`, and wait until the server has it.

    Raises:
        TimeoutError: it has not; the event is emitted again by the next run.
        InputError: the result is damaged.
    """
    reasons = read_json(out / place / result / "drift.json")["reasons"]
    emit_event(
        DRIFT,
        resource={
            "prefect.resource.id": f"plumbline.place.{place}",
            "prefect.resource.name": place,
        },
        payload={"place": place, "result": result, "reasons": reasons},
    )
    ended: Any = EventsWorker.drain_all(timeout=SECONDS_TO_SEND)
    if ended.not_done:
        raise TimeoutError(f"event {DRIFT} was not taken within {SECONDS_TO_SEND:g} s")


def call_drifted(out: Path, place: str) -> list[str]:
    """Call for each new training that is due for a place and was not called for; return
    what went wrong.

    This needs a permanent server, on which `retrain` can listen: the embedded one ends with
    this run.

    Raises:
        InputError: a result is damaged.
    """
    if PREFECT_API_URL.value() is None or embedded_server.at_work():
        return []
    for result in drifted(out, place):
        try:
            call(result.place, result.folder_name, out)
        except TimeoutError as error:
            return [str(error)]
        mark_called(out, result)
    return []


@flow(name="score")
def score(dask: str | None = None, block: str | None = None) -> Any:
    """Judge every new delivery and send messages about changes; unsent ones are sent the next time.

    Args:
        dask: address of a Dask scheduler, `tcp://HOST:PORT`, on whose workers parts are
            read and tiles judged; they must see the project's folder, and the package,
            under the same paths. Without one, this machine's cores do it.
        block: Prefect block that messages go to, `TYPE/NAME`; data/score/messages.jsonl
            without one.
    """
    try:
        params = load_params().score
    except PlumblineError as error:
        return tasks.failed(error)
    failures = []
    imported = sorted(params.source.glob("*.dvc"))
    fetched = [fetch(str(path), return_state=True) for path in imported]
    failures += [state.message or "fetch" for state in fetched if not state.is_completed()]
    aside, code = "", 1
    if not failures:
        # A source that was fetched in part could pass for a whole delivery.
        state = judge(dask, return_state=True)
        if state.is_completed():
            aside = str(state.result())
        else:
            failures.append(state.message or "score")
            code = tasks.exit_code(state)
    messages: list[Message] = []
    for place in places_with_results(params.out):
        try:
            failures += call_drifted(params.out, place)
            messages += unsent(params.out, place)
        except (
            PlumblineError
        ) as error:  # a damaged result, which holds up the news of no other place
            code = code if failures else error.exit_code
            failures += [] if any(str(error) in text for text in failures) else [str(error)]
    messages += unsent_aside(params.out)
    sent = [tell(message, block, params.out, return_state=True) for message in messages]
    lost = [state for state in sent if not state.is_completed()]
    if lost:
        failures.append(
            f"{len(lost)} messages could not be sent, and will be the next time: {lost[0].message}"
        )
    if failures:
        return tasks.failed(StageFailedError("; ".join(failures), code, key="score.failed"))
    text = f"{len(sent)} messages sent" if sent else "nothing to tell"
    return Completed(message=f"{text}; {aside}" if aside else text)


def main() -> int:
    """Run the flow here and now, return the exit code."""
    dask, block = os.environ.get("PLUMBLINE_DASK"), os.environ.get("PLUMBLINE_BLOCK")
    return tasks.exit_code(tasks.run_by_hand(lambda: score(dask, block, return_state=True)))


if __name__ == "__main__":
    sys.exit(main())
