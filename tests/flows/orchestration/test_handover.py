"""What came of a stage on another pool, and what is refused before anything is asked of one."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas import State
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows.orchestration import handover, tasks
from flows.orchestration.handover import _outcome
from flows.pipeline import pipeline
from flows.stage import stage
from flows.versioning.stage_runner import NotRestoredError, StageFailedError, UnreachableError


def ended(state: State[Any]) -> FlowRun:
    return FlowRun(flow_id=uuid4(), name="owl", state=state)


@pytest.mark.parametrize("outcome", ["ran", "restored", "unchanged"])
def test_how_it_came_about_is_told_here_too(outcome: str) -> None:
    assert _outcome(ended(Completed(message=f"train: {outcome}")), "train", "stage/train") == outcome


@pytest.mark.parametrize(
    ("state", "words", "code", "is_unreachable"),
    [
        *((tasks.failed(StageFailedError("why", code)), "why", code, False) for code in (1, 2, 3)),
        (tasks.failed(NotRestoredError("why")), "why", 2, False),
        (Cancelled(), "was cancelled", 1, False),
        (Failed(), "without a message", 1, False),
        (Crashed(message="lost"), "lost", 1, True),
        (tasks.failed(UnreachableError("lost")), "lost", 1, True),
    ],
    ids=["1", "2", "3", "not restored", "cancelled", "no message", "crashed", "unreachable"],
)
def test_a_failure_there_is_the_same_failure_here(
    state: State[Any], words: str, code: int, is_unreachable: bool
) -> None:
    """Only what was lost or cut off may go well in a while."""
    with pytest.raises(StageFailedError, match=words) as caught:
        _outcome(ended(state), "train", "stage/train")
    assert caught.value.exit_code == code
    assert isinstance(caught.value, UnreachableError) == is_unreachable
    assert tasks._may_go_well(None, None, tasks.failed(caught.value)) == is_unreachable


class Answering:
    """A client whose server answers so, one after the other."""

    def __init__(self, *answers: int | FlowRun) -> None:
        self.answers = list(answers)

    def read_flow_run(self, number: UUID) -> FlowRun:
        answer = self.answers.pop(0)
        if isinstance(answer, FlowRun):
            return answer
        asked = httpx.Request("GET", "http://127.0.0.1/api")
        raise httpx.HTTPStatusError(f"{answer}", request=asked, response=httpx.Response(answer, request=asked))


def test_a_server_or_its_proxy_that_is_unwell_for_a_moment_costs_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "POLL_S", 0.0)
    run = ended(Completed(message="train: ran"))
    assert handover._ended(Answering(503, 500, run), uuid4(), "train") is run  # type: ignore[arg-type]
    with pytest.raises(httpx.HTTPStatusError, match="403"):  # a login that is refused stays refused
        handover._ended(Answering(403, run), uuid4(), "train")  # type: ignore[arg-type]

    def asked(*_: object, **__: object) -> None:
        Answering(502).read_flow_run(uuid4())

    monkeypatch.setattr(handover, "run_deployment", asked)
    with pytest.raises(UnreachableError, match="does not answer: 502"):
        handover.make("train", "stage/train", "HEAD", print)
    monkeypatch.setattr(handover, "PATIENCE_S", -1.0)
    with pytest.raises(UnreachableError, match=r"server does not answer \(503\)"):
        handover._ended(Answering(503, run), uuid4(), "train")  # type: ignore[arg-type]


def test_the_state_of_a_step_is_passed_on_with_its_name_and_exit_code() -> None:
    state = tasks.passed_on(tasks.failed(StageFailedError("why", 3)))
    assert (state.name, state.message, tasks.exit_code(state)) == ("Refused", "why", 3)


def test_other_machines_need_a_commit() -> None:
    state = pipeline.fn(elsewhere={"train": "stage/train"})
    assert (state.name, tasks.exit_code(state)) == ("BadInput", 2)
    assert "commit" in state.message


def test_a_stage_of_another_pool_is_refused_before_anything_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_STAGES", "train compress")
    state = stage.fn("simulate", "HEAD")
    assert state.name == "BadInput"
    assert state.message == "simulate: not a stage of this machine, which is for: train compress"
