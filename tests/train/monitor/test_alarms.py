import json
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import psutil
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from plumbline.train.monitor.alarms import MOST_LEFT_OUT, StepAlarm
from plumbline.train.monitor.progress import Monitor
from plumbline.train.monitor.record import free_bytes, gpu_share, machine, memory_bytes, memory_share
from tests.refusals import refuses, warned
from tests.train.fit.test_trainer import run
from tests.train.made import make_params

MONITORED = {"gradient_norm", "samples_per_second", "memory_bytes", "memory_share"}
FIGURES = {"loss", "learning_rate", *MONITORED}


def look(loss=1.0, norm=1.0, last=None, **changed):
    StepAlarm(make_params(**changed).train).check_step(2, 119, torch.tensor(loss), torch.tensor(norm), last)


@pytest.mark.parametrize(
    "figures",
    [{"loss": np.nan}, {"loss": np.inf}, {"norm": np.nan}, {"norm": np.inf}, {"loss": np.nan, "precision": "fp16"}],
    ids=str,
)
def test_what_is_no_finite_number_always_stops_the_run(figures, tmp_path):
    last = tmp_path / "last.ckpt"
    with refuses("training.diverged", "epoch 3, step 120. Lower train.learning_rate"):
        look(**figures, last=last)
    last.touch()
    with refuses("training.diverged", last):
        look(**figures, last=last)


def test_a_last_step_that_spoils_the_weights_is_no_finished_run(work):
    """Nothing looks at what the last step of an epoch has made but the answers after it."""
    for _ in range(2):  # what it leaves behind is not taken for a run that has ended
        with refuses("training.spoiled_weights", "train: ", "epoch 1:", "learning_rate"):
            run("spoiled", epochs=1, batch_size=512, learning_rate=1e30)
        assert not Path("spoiled").exists()


def test_scaled_gradients_that_only_overflow_stop_the_run():
    alarm, one, overflow = StepAlarm(make_params(precision="fp16").train), torch.tensor(1.0), torch.tensor(np.inf)
    for _ in range(2):  # a step that is taken begins the count anew
        for number in range(MOST_LEFT_OUT):
            alarm.check_step(0, number, one, overflow)
        alarm.check_step(0, MOST_LEFT_OUT, one, one)
    for number in range(MOST_LEFT_OUT):
        alarm.check_step(0, number, one, overflow)
    with refuses("training.diverged", "norm inf at epoch 1, step 26"):
        alarm.check_step(0, MOST_LEFT_OUT, one, overflow)


def test_the_first_batch_that_takes_nearly_all_memory_is_warned_of(tmp_path, caplog, monkeypatch):
    shares = iter([0.2, 0.9, 0.95, 0.2])
    monkeypatch.setattr("plumbline.train.monitor.progress.memory_share", lambda device: next(shares))
    monitor, module = Monitor(tmp_path / "train.jsonl"), SimpleNamespace(device=torch.device("cpu"))
    for _ in range(4):
        monitor.on_before_backward(None, module, None)
    (message,) = warned(caplog, "memory.nearly_full")
    assert "train: 90 %" in message
    assert "train.batch_size" in message


def test_a_container_has_the_memory_that_it_is_given(tmp_path):
    whole = machine(tmp_path / "none")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("50000000\n")
    (tmp_path / "memory.stat").write_text("anon 10000000\ninactive_file 30000000\n")
    assert machine(tmp_path).total == whole.total
    (tmp_path / "memory.max").write_text("100000000\n")
    assert machine(tmp_path) == (100_000_000, 80_000_000)
    (tmp_path / "memory.current").write_text("150000000\n")
    assert machine(tmp_path).free == 0
    (tmp_path / "memory.max").write_text(f"{2 * whole.total}\n")
    assert machine(tmp_path).total == whole.total


def test_memory_is_measured():
    cpu = torch.device("cpu")
    assert 0 < memory_share(cpu) < 1
    used = {"reserved_bytes": {"all": {"current": 80}}, "allocated_bytes": {"all": {"current": 1, "peak": 76}}}
    with (
        mock.patch("torch.cuda.mem_get_info", return_value=(10, 100)),
        mock.patch("torch.cuda.memory_stats_as_nested_dict", return_value=used),
    ):
        assert memory_share(torch.device("cuda")) == pytest.approx(0.86)  # 10 are others', 4 are kept for what comes
    assert 0 < free_bytes(gpu=False) < machine().total
    assert 0.9 * psutil.Process().memory_info().rss < memory_bytes(cpu) < machine().total


def test_how_busy_a_gpu_is_may_stay_unknown(monkeypatch):
    """As where NVIDIA's package is not installed, the driver refuses, or the GPU is a part of one."""

    def refuse(device):
        raise ModuleNotFoundError("nvidia-ml-py")

    monkeypatch.setattr(torch.cuda, "utilization", refuse)
    assert gpu_share(torch.device("cuda", 0)) is None
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: 37)
    assert gpu_share(torch.device("cuda", 0)) == 0.37
    assert gpu_share(torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("environment", "number"), [({}, 0), ({"LOCAL_RANK": "1", "SLURM_LOCALID": "3"}, 1), ({"SLURM_LOCALID": "2"}, 2)]
)
def test_each_process_looks_at_the_memory_of_its_own_gpu(monkeypatch, environment, number):
    for name in ("LOCAL_RANK", "SLURM_LOCALID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (device, 100))
    assert free_bytes(gpu=True) == number


def test_lines_of_json_say_how_the_run_is_doing(work):
    """A step of several batches has one line."""
    run(batch_size=2, accumulate=2)
    (path,) = Path(".plumbline/runs").glob("train-*/train.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["kind"], line["epoch"], line["step"]) for line in lines] == [
        ("epoch", 1, 40),
        ("step", 2, 50),
        ("epoch", 2, 80),
    ]
    for line in lines:
        assert set(line) >= FIGURES
        assert line["loss"] > 0
        assert line["gradient_norm"] > 0
        assert line["samples_per_second"] > 0
    assert "score" in lines[-1]
    (events,) = Path(".plumbline/tensorboard/train").glob("version_*")
    read = EventAccumulator(str(events)).Reload()
    drawn = set(read.Tags()["scalars"])
    assert drawn >= {"tune/score", "train/loss", "learning_rate", *(f"monitor/{name}" for name in MONITORED)}
    assert {point.step for point in read.Scalars("monitor/memory_share")} >= {50}
    assert [round(point.value, 4) for point in read.Scalars("tune/score")] == [
        round(line["score"], 4) for line in lines if line["kind"] == "epoch"
    ]
