import csv
import functools
import json
import shutil
import signal
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning import Callback, LightningModule
from lightning.pytorch.profilers import PyTorchProfiler
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounterWithBackend

from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file, sha256_folder
from plumbline.core.jobs import alone
from plumbline.model.attention import Attention
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features.shards import load_shards, save_shards
from plumbline.train import stage
from plumbline.train.data.batches import loader
from plumbline.train.data.datamodule import Data
from plumbline.train.distributed import strategies
from plumbline.train.fit import trainer as fit_module
from plumbline.train.fit.checkpoints import checkpoint_score, resumed
from plumbline.train.fit.ema import Ema
from plumbline.train.fit.module import Optimisation
from plumbline.train.monitor.loggers import loggers, recorded
from plumbline.train.stage import run_key, train
from tests.refusals import warned
from tests.tiny import empty_registry
from tests.train.made import make_params, make_sequences, save_prepared

CHECKPOINTS = Path(".plumbline/checkpoints")


class Killed(BaseException):
    """Stands for the end of the process in tests within one."""


def killed(*_):
    raise Killed


def run(out="out", dies_before=None, **changed):
    """The stage; `dies_before` an epoch, counted from 0."""

    def on_train_epoch_start(self):
        if self.current_epoch == dies_before:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Optimisation, "on_train_epoch_start", on_train_epoch_start)
        train(Path("data/prepare"), make_params(**changed), Path(out))


def history(out="out"):
    with (Path(out) / "history.csv").open() as stream:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream)]


def weights(out):
    return sha256_file(Path(out) / "model.safetensors")


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> tuple[Path, str]:
    """The project of a run of two epochs that was cut before its last, and the weights of a run that was not."""
    folder = tmp_path_factory.mktemp("begun")
    save_prepared(folder / "data" / "prepare")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", "file:nowhere")
        run("whole")
        with pytest.raises(Killed):
            run("cut", dies_before=1)
    return folder, sha256_file(folder / "whole" / "model.safetensors")


@pytest.fixture
def cut(work, begun) -> str:
    """Copy what the cut run left, to be harmed, and return the weights that it would have ended with."""
    shutil.copytree(begun[0] / ".plumbline", work / ".plumbline")
    return begun[1]


def test_training_lowers_the_loss_learns_both_tasks_and_keeps_the_best_epoch(work, caplog):
    run(epochs=12, learning_rate=0.02)
    rows = history()
    assert [row["epoch"] for row in rows] == list(range(1, 13))
    assert rows[-1]["train_loss"] < 0.6 * rows[0]["train_loss"]
    assert max(row["score"] for row in rows) > 0.1
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "history.csv",
        "metrics.json",
        "model.json",
        "model.safetensors",
        "record.json",
    ]
    assert not CHECKPOINTS.exists() or not list(CHECKPOINTS.iterdir())
    assert len(warned(caplog, "mlflow.no_answer", "file:nowhere")) == 1
    best = max(rows, key=lambda row: row["score"])
    metrics = json.loads(Path("out/metrics.json").read_text())
    assert metrics["score"] == pytest.approx(best["score"], abs=1e-4)
    assert metrics["epochs"] == 12
    model, tune = load_diagnosis(Path("out")), load_shards(Path("data/prepare/tune"))
    (batch,) = loader(tune, 512)
    with torch.inference_mode():
        answer = model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
    parts = (answer.quadrant_probability, answer.severity_permille, batch.accepted_B4, batch.severity_B)
    assert checkpoint_score(*(part.numpy() for part in parts)).score == pytest.approx(best["score"], abs=1e-4)


def test_a_record_that_falls_silent_is_told_of_once_and_training_goes_on(work, tmp_path_factory, caplog, monkeypatch):
    shutil.copy(empty_registry(tmp_path_factory), work)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{work}/mlflow.db")
    log_batch = MlflowClient.log_batch

    def gone(self, run_id, metrics=(), *others, **named):
        if metrics:
            raise MlflowException("no answer from http://me:secret@host")
        return log_batch(self, run_id, metrics, *others, **named)

    monkeypatch.setattr(MlflowClient, "log_batch", gone)
    run()
    assert len(history()) == 2
    (message,) = warned(caplog, "mlflow.no_answer")
    assert "(no answer from http://me:***@host)" in message


def test_the_seed_decides_and_intervals_are_of_their_own_split(work):
    """Other buildings in the other splits, another calibration; network and statistics stay."""
    run("one", epochs=1)
    run("other", epochs=1, seed=1)
    assert weights("one") != weights("other")
    for name, seed in (("tune", 7), ("calibrate", 9), ("test", 8)):
        buildings = make_sequences(60, seed)
        buildings.distance[:] *= 50
        buildings.geometry[:] += 9
        save_shards([buildings], Path("data/prepare") / name)
    run("other", epochs=1)
    one, other = (load_file(f"{name}/model.safetensors") for name in ("one", "other"))
    moved = {name for name in one if not torch.equal(one[name], other[name])}
    assert {"interval_below", "interval_above"} <= moved <= set(CALIBRATED)


CALIBRATED = (
    *("temperature", "interval_below", "interval_above", "interval_length"),
    *("quadrant_scale", "accepted_scale", "accepted_shift"),
    *("level_scale", "level_shift", "mechanism_scale", "category_share"),
)
"""What `calibrate` sets."""


KINDS = {
    # Steps too small to change a weight: the score stays, and the rate halves before the cut.
    "plateau": {"patience": 3, "gradient_clip": 1e-30, "weight_decay": 0.0, "augment": False},
    "cosine": {"schedule": "cosine", "warmup_epochs": 1.5, "ema_decay": 0.9, "accumulate": 3, "batch_size": 12},
    "curriculum": {"curriculum": {"medium": 2, "hard": 3}, "balance": "oversample", "precision": "bf16"},
}


@pytest.mark.parametrize(("kind", "dies_before"), [("plateau", 3), ("cosine", 1), ("curriculum", 1)])
def test_a_run_that_was_cut_ends_as_if_it_had_not_been(work, said, kind, dies_before):
    """Every loss, score and rate, and every bit of the weights."""
    sequences = make_sequences(80, 3)
    save_shards([replace(sequences, difficulty=(np.arange(80) % 4 - 1).astype(np.int8))], Path("data/prepare/train"))
    changed = {"epochs": dies_before + 2, "learning_rate": 0.02, **KINDS[kind]}
    run("whole", **changed)
    with pytest.raises(Killed):
        run("cut", dies_before=dies_before, **changed)
    assert not Path("cut").exists()
    run("cut", **changed)
    resumed = f"resuming from the checkpoint of an interrupted run, after epoch {dies_before}"
    assert sum(resumed in line for line in said) == 1
    assert Path("cut/history.csv").read_text() == Path("whole/history.csv").read_text()
    assert weights("cut") == weights("whole")
    assert not list(CHECKPOINTS.iterdir())
    assert len({row["learning_rate"] for row in history("cut")}) > (kind != "curriculum")
    assert np.isfinite([row["train_loss"] for row in history("cut")]).all()


def test_a_run_that_was_cut_ends_so_with_batches_made_ahead_too(work, monkeypatch):
    """As on a GPU. What makes them begins before the trainer has said which epoch it is."""

    def ahead(self, stage):
        setup(self, stage)
        self.ahead = {"num_workers": 1}

    setup = Data.setup
    monkeypatch.setattr(Data, "setup", ahead)
    # What made the batches of a run before may hold its lock a little longer, on a busy machine long.
    monkeypatch.setattr("plumbline.train.distributed.strategies.ENDING_SECONDS", 60.0)
    run("whole", epochs=2)
    with pytest.raises(Killed):
        run("cut", dies_before=1, epochs=2)
    run("cut", epochs=2)
    assert Path("cut/history.csv").read_text() == Path("whole/history.csv").read_text()
    assert weights("cut") == weights("whole")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler on this machine")
def test_compiled_steps_learn_the_same_and_leave_nothing_compiled_behind(work, monkeypatch):
    """By the part of torch's compiler that reads the code; what the next makes of it: tests/model/test_compiled.py."""
    monkeypatch.delenv("CXX", raising=False)
    counter = CompileCounterWithBackend("eager")
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=counter))
    plain_after = []

    def on_fit_end(self):
        end(self)
        plain_after.append(self._raw == self.model.raw)

    end = Optimisation.on_fit_end
    monkeypatch.setattr(Optimisation, "on_fit_end", on_fit_end)
    changed = {"model": {"dropout": 0.0}, "epochs": 2, "learning_rate": 0.01, "ema_decay": 0.9}
    run("plain", **changed)
    assert not counter.frame_count
    run("compiled", compile=True, **changed)
    compiled = counter.frame_count
    assert compiled
    for left, right in zip(history("compiled"), history("plain"), strict=True):
        assert left == pytest.approx(right, rel=1e-4)
    run("again", **changed)
    assert weights("again") == weights("plain")
    assert counter.frame_count == compiled
    assert plain_after == [True] * 3


def test_a_run_that_had_stopped_early_is_not_gone_on_with(work, said, monkeypatch):
    """Killed after its last epoch, before the results were written."""
    changed = {"epochs": 40, "learning_rate": 0.3, "patience": 1}
    run("whole", **changed)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "calibrate", killed)
        with pytest.raises(Killed):
            run("cut", **changed)
    run("cut", **changed)
    assert len(history("whole")) < 40
    assert sum("resuming from the checkpoint of an interrupted run" in line for line in said) == 1
    assert Path("cut/history.csv").read_text() == Path("whole/history.csv").read_text()
    assert weights("cut") == weights("whole")


def test_best_epoch_patience_and_plateau_begin_with_the_epoch_in_which_all_are_drawn(work):
    """An easy epoch that scored high is none to be measured by. Steps are too small to change a weight."""
    sequences = make_sequences(60, 3)
    save_shards([replace(sequences, difficulty=(np.arange(60) % 3).astype(np.int8))], Path("data/prepare/train"))
    run(epochs=20, patience=3, gradient_clip=1e-30, weight_decay=0.0, curriculum={"medium": 2, "hard": 4})
    assert [row["learning_rate"] / 0.003 for row in history()] == pytest.approx([1, 1, 1, 1, 1, 0.5, 0.25])
    assert json.loads(Path("out/record.json").read_text())["best_epoch"] == 4


def test_a_curriculum_that_the_data_do_not_have_holds_nothing_up(work, caplog):
    """All are drawn from the first epoch on, so that it may be the best one; and it is said."""
    run(epochs=3, learning_rate=1e-12, curriculum={"medium": 2, "hard": 3})
    assert json.loads(Path("out/record.json").read_text())["best_epoch"] == 1
    assert len(warned(caplog, "curriculum.no_later_level", "train.curriculum", "epoch 1;")) == 1


def test_an_interruption_is_one(work, monkeypatch):
    """Lightning by itself ends the process with exit code 1, which is a bug's."""

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Optimisation, "on_train_epoch_end", interrupt)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(Path("data/prepare"), make_params(), Path("out"))
    finally:
        signal.signal(signal.SIGINT, before)  # Lightning has it ignored from then on
    assert not Path("out").exists()


def test_an_interrupted_run_is_one_run_in_mlflow(work, tmp_path_factory, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    shutil.copy(empty_registry(tmp_path_factory), work)
    client = MlflowClient(f"sqlite:///{Path('mlflow.db').resolve()}")
    with pytest.raises(Killed):
        run("cut", dies_before=1)
    run("cut")
    (found,) = search(client)
    record = json.loads(Path("cut/record.json").read_text())
    assert found.info.status == "FINISHED"
    assert found.data.tags["data_sha256"] == record["data_sha256"] == sha256_folder(Path("data/prepare"))
    assert found.data.tags["run_key"] == record["run_key"]
    assert found.data.params["train/epochs"] == "2"
    for name, value in record["metrics"].items():
        assert found.data.metrics[f"best/{name}"] == pytest.approx(value)
    curve = client.get_metric_history(found.info.run_id, "tune/score")
    assert [point.value for point in curve] == pytest.approx([row["score"] for row in history("cut")])
    assert {"monitor/gradient_norm", "train/loss", "learning_rate"} <= set(found.data.metrics)
    stored = Path(client.download_artifacts(found.info.run_id, "record.json"))
    told = json.loads(stored.read_text())
    assert {name: told[name] for name in record} == record
    assert set(told) - set(record) == {"git", "hardware", "started"}  # what differs between runs of the same inputs


def test_a_run_that_was_removed_from_mlflow_is_begun_again(work, tmp_path_factory, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    shutil.copy(empty_registry(tmp_path_factory), work)
    client = MlflowClient(f"sqlite:///{Path('mlflow.db').resolve()}")
    record = {"run_key": "k", "data_sha256": "d", "git": None, "params": {"epochs": 1}}
    first = recorded(loggers("train", record, Path(".plumbline"), {}))
    assert recorded(loggers("train", record, Path(".plumbline"), first)) == first
    client.delete_run(first["_Record"])
    second = recorded(loggers("train", record, Path(".plumbline"), first))
    third = recorded(loggers("train", record, Path(".plumbline"), {**first, "_Record": "0" * 32}))
    assert {run.info.run_id for run in search(client)} == {second["_Record"], third["_Record"]}


def search(client):
    experiment = client.get_experiment_by_name("plumbline")
    return client.search_runs([experiment.experiment_id])


def lose_a_bit(path):
    """Of the weights, say: all can be read, and is not what was written."""
    with zipfile.ZipFile(path) as parts:
        largest = max(parts.infolist(), key=lambda part: part.file_size)
    content = bytearray(path.read_bytes())
    content[largest.header_offset + 400 + largest.file_size // 2] ^= 1
    path.write_bytes(content)
    assert torch.load(path, weights_only=True)["epoch"] == 0


@pytest.mark.parametrize(
    ("name", "harm", "key"),
    [
        ("last", lambda path: path.write_bytes(path.read_bytes()[:-1000]), "checkpoint.unreadable"),
        ("last", lose_a_bit, "checkpoint.unreadable"),
        ("best", Path.unlink, "checkpoint.best_unusable"),
        ("best", lambda path: path.write_bytes(b"cut"), "checkpoint.best_unusable"),
    ],
    ids=["truncated", "a bit", "best gone", "best cut"],
)
def test_a_run_with_a_harmed_checkpoint_starts_afresh_with_a_warning(cut, said, caplog, name, harm, key):
    (path,) = CHECKPOINTS.glob(f"train-*/{name}.ckpt")
    harm(path)
    run("cut")
    assert warned(caplog, key, f"{name}.ckpt")
    assert not any("resuming" in line for line in said)
    assert weights("cut") == cut


def test_a_checkpoint_that_memory_does_not_suffice_for_stays(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise MemoryError

    with zipfile.ZipFile(tmp_path / "last.ckpt", "w") as parts:
        parts.writestr("data", "of a checkpoint")
    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(MemoryError):
        resumed(tmp_path, "train", ["checkpoint", "random"])
    assert (tmp_path / "last.ckpt").exists()


def test_a_project_that_was_moved_goes_on_with_its_best_epoch(work, monkeypatch):
    """The folder that it was written into is gone. Steps too small to change a weight: the first epoch stays best."""
    changed = {"epochs": 2, "learning_rate": 1e-12}
    with pytest.raises(Killed):
        run("cut", dies_before=1, **changed)
    elsewhere = work.with_name("elsewhere")
    work.rename(elsewhere)
    monkeypatch.chdir(elsewhere)
    run("cut", **changed)
    assert json.loads(Path("cut/record.json").read_text())["best_epoch"] == 1
    assert not work.exists()


def test_two_at_once_are_refused(work, monkeypatch):
    monkeypatch.setattr(strategies, "ENDING_SECONDS", 0.3)
    with alone("train"), pytest.raises(InputError, match="train: "):
        run()
    run(epochs=1)


def test_a_run_cut_within_an_epoch_tells_of_each_step_once(work, monkeypatch):
    """And all of it is one curve in TensorBoard. The kill left half of a line, too."""

    def on_train_batch_start(self, batch, number):
        if (self.current_epoch, number) == (1, 30):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Optimisation, "on_train_batch_start", on_train_batch_start, raising=False)
        with pytest.raises(Killed):
            run(batch_size=4)
    (path,) = Path(".plumbline/runs").glob("*/train.jsonl")
    assert [line["step"] for line in map(json.loads, path.read_text().splitlines())] == [40, 50]
    with path.open("a") as stream:
        stream.write('{"kind": "step", "ep')
    run(batch_size=4)
    assert [(line["epoch"], line["step"]) for line in map(json.loads, path.read_text().splitlines())] == [
        (1, 40),
        (2, 50),
        (2, 80),
    ]
    assert len(list(Path(".plumbline/tensorboard/train").iterdir())) == 1
    run(batch_size=4)  # anew, with lines of its own
    assert len(path.read_text().splitlines()) == 3


def test_run_key_tells_data_settings_other_inputs_and_forms_apart(tmp_path, monkeypatch):
    for name, content in (("a", "1"), ("b", "2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(content)
    a, b = tmp_path / "a", tmp_path / "b"
    plain = {"train": {"seed": 1}}
    keys = [
        run_key("a", plain),
        run_key("a", {"train": {"seed": 2}}),
        run_key("b", plain),
        *(run_key("a", plain, other) for other in (a, b)),
    ]
    assert len(set(keys)) == 5
    assert run_key("a", {**plain, "y": 2}) == run_key("a", {"y": 2, **plain})
    # A checkpoint of other code, whose optimiser holds something else, cannot be gone on with.
    monkeypatch.setattr("plumbline.train.stage.FORM", 1)
    assert run_key("a", plain) not in keys


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("simple", ["optimizer_step", "train_dataloader_next"]),
        pytest.param("pytorch", ["aten::addmm", "AddmmBack"], marks=pytest.mark.slow),
    ],
)
def test_a_profile_says_where_the_time_goes(work, kind, parts):
    run(epochs=1, profile=kind)
    folder = Path(".plumbline/profile")
    (table,) = folder.glob("fit-train-*.txt")
    content = table.read_text()
    assert all(part in content for part in parts)
    assert bool(list(folder.glob("*.pt.trace.json"))) == (kind == "pytorch")


def test_the_profiler_of_torch_writes_beside_it(monkeypatch):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "99")  # which it sets else
    profiler = fit_module._profiler(make_params(profile="pytorch").train, "train")
    assert isinstance(profiler, PyTorchProfiler)
    assert (profiler.dirpath, profiler.filename) == (Path(".plumbline/profile"), "train")
    assert fit_module._profiler(make_params().train, "train") is None


@pytest.mark.parametrize("attention", ["sdpa", pytest.param("ragged", marks=pytest.mark.slow)])
def test_half_precision_trains_as_float32_does(work, monkeypatch, attention):
    """On the CPU, by torch's autocast; fp16 needs a GPU."""
    types, split = set(), Attention._split

    def noted(self, x_BLD):
        if self.training:
            types.add(x_BLD.dtype)
        return split(self, x_BLD)

    monkeypatch.setattr(Attention, "_split", noted)
    options = {"epochs": 2, "model": {"dropout": 0.0, "attention": attention}}
    run("half", precision="bf16", **options)
    assert types == {torch.bfloat16}
    run("whole", **options)
    for half, whole in zip(history("half"), history("whole"), strict=True):
        assert half["train_loss"] == pytest.approx(whole["train_loss"], rel=0.05)


def test_the_saved_weights_are_the_mean_over_the_steps(work, monkeypatch):
    """By the recursion of the mean, from the weights after each step."""
    seen = []

    class Follow(Callback):
        def __init__(self, *_):
            super().__init__()

        def on_train_batch_end(self, trainer, pl_module, *_):
            seen.append(pl_module.model.network.heads.quadrant_head.weight.detach().clone())

    monkeypatch.setattr(fit_module, "Monitor", Follow)
    run(epochs=1, ema_decay=0.6)
    mean = seen[0]
    for step, weight in enumerate(seen[1:], start=1):
        decay = min(0.6, (1 + step) / (10 + step))
        mean = decay * mean + (1 - decay) * weight
    saved = load_file(Path("out") / "model.safetensors")
    torch.testing.assert_close(saved["network.heads.quadrant_head.weight"], mean, rtol=1e-5, atol=1e-7)
    assert not torch.equal(seen[-1], mean)


def test_the_mean_is_kept_where_the_weights_will_be():
    """They come there after the mean was made; each step would copy them all otherwise."""
    module, average = LightningModule(), Ema(0.9)
    module.layer = torch.nn.Linear(2, 2)
    average.setup(SimpleNamespace(strategy=SimpleNamespace(root_device=torch.device("meta"))), module, "fit")
    assert {value.device.type for value in average._average_model.module.parameters()} == {"meta"}
    assert module.layer.weight.device.type == "cpu"
