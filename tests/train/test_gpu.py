"""Training on a GPU: whole runs where there is one, and everywhere that a step stays on the device of its batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from plumbline.train.data.batches import Batch
from plumbline.train.data.sampler import ShareScale, turn
from plumbline.train.fit.module import distillation_loss, objective
from plumbline.train.monitor.record import gpu_share
from tests.model.made import needs_gpu
from tests.train.data.test_distributed_sampler import apart
from tests.train.distributed.test_strategies import ENVIRONMENT
from tests.train.fit.test_trainer import Killed, history, run
from tests.train.made import make_batch, make_model, make_params, settings

GPU = {"accelerator": "gpu"}


def trained(folder, model=None, **changed):
    """`plumbline train` in a process of its own, as users start it; the lines that its monitor wrote."""
    Path("params.yaml").write_text(yaml.safe_dump(settings(model, **GPU, **changed)))
    before = set(Path(".plumbline/runs").glob("*/train.jsonl"))
    command = [sys.executable, "-m", "plumbline", "train"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    Path("data/train").rename(folder)
    (lines,) = set(Path(".plumbline/runs").glob("*/train.jsonl")) - before
    assert json.loads(lines.with_name("record.json").read_text())["hardware"]["gpus"]
    return [json.loads(line) for line in lines.read_text().splitlines()]


@pytest.mark.parametrize(
    ("attention", "quadrant", "severity", "checkpoint"),
    [
        ("none", "cross_entropy", "pinball", False),
        ("sdpa", "focal", "mse", True),
        ("sdpa", "cross_entropy", "huber", False),
        ("none", "focal", "charbonnier", False),
    ],
)
def test_a_step_happens_where_its_batch_is(attention, quadrant, severity, checkpoint):
    """Tensors of the device `meta` have no values, and refuse to meet tensors of the CPU."""
    losses = make_params(quadrant_loss=quadrant, severity_loss=severity, balance="weights").train
    model = make_model(attention=attention, checkpoint_activations=checkpoint).to("meta")
    batch = Batch(*(tensor.to("meta") for tensor in make_batch(6)))
    share = turn(batch, torch.zeros(6, dtype=torch.int64, device="meta"))
    answer = model.raw(share.distance_BLF, share.slope_BLF, share.geometry_BF, share.mask_BL)
    scale = ShareScale(*(torch.ones((), device="meta") for _ in ShareScale._fields))
    loss = objective(model, answer, share, losses, scale) + distillation_loss(answer, model, share, scale)
    loss.backward()
    released = model(share.distance_BLF, share.slope_BLF, share.geometry_BF, share.mask_BL)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert len(gradients) > 10
    assert {tensor.device.type for tensor in (loss, *released, *gradients)} == {"meta"}


@needs_gpu
@pytest.mark.parametrize(
    ("precision", "compiled", "attention", "close"),
    [
        (32, False, "sdpa", 0.01),
        ("bf16", False, "sdpa", 0.05),
        ("fp16", False, "sdpa", 0.1),
        ("bf16", True, "sdpa", 0.05),
        ("bf16", False, "ragged", 0.05),
        (32, True, "ragged", 0.01),
    ],
)
def test_every_precision_trains_on_a_gpu_as_the_cpu_does(work, precision, compiled, attention, close):
    model = {"dropout": 0.0, "attention": attention}
    run("cpu", epochs=3, accelerator="cpu", model=model)
    lines = trained("gpu", model, epochs=3, precision=precision, compile=compiled)
    for one, other in zip(history("cpu"), history("gpu"), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=close)
    assert all(0 < line["memory_share"] < 1 and line["memory_bytes"] > 0 for line in lines)
    if gpu_share(torch.device("cuda", 0)) is not None:
        assert all(0 <= line["gpu_share"] <= 1 for line in lines)


@needs_gpu
def test_a_killed_run_goes_on_on_a_gpu(work):
    run("whole", epochs=4, **GPU)
    with pytest.raises(Killed):
        run("cut", epochs=4, dies_before=2, **GPU)
    run("cut", epochs=4, **GPU)
    for one, other in zip(history("whole"), history("cut"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    assert apart("whole", "cut") < 1e-4


@needs_gpu
def test_a_batch_size_is_found_on_a_gpu(work):
    trained("out", epochs=1, batch_size="auto")
    found = json.loads(Path("out/record.json").read_text())["batch_size"]
    assert found & (found - 1) == 0
    assert found >= 1


@needs_gpu
@pytest.mark.parametrize("strategy", ["fsdp", "zero2"])
def test_weights_in_parts_end_as_whole_ones_do(work, strategy):
    """With one GPU there is one part; with two, two of them are tried against one of twice the batch."""
    devices = min(2, torch.cuda.device_count())
    model = {"dropout": 0.0}
    common = {"epochs": 2}
    trained("whole", model, batch_size=32, **common)
    lines = trained("parts", model, batch_size=32 // devices, devices=devices, strategy=strategy, **common)
    assert apart("whole", "parts") < 1e-3
    if gpu_share(torch.device("cuda", 0)) is not None:
        assert all("gpu_share" in line for line in lines)  # it is the GPU that is watched


@needs_gpu
@pytest.mark.parametrize("strategy", ["auto", "fsdp"])
def test_pruning_asks_the_teacher_where_it_is(work, strategy):
    """In training where the weights are, in the scan of sensitivity after it on the CPU."""
    params = settings(strategy=strategy, epochs=1, **GPU)
    params["compress"] |= {"epochs": 2, "sensitivity": 20, "importance_batches": 1}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    for name in ("train", "compress"):
        command = [sys.executable, "-m", "plumbline", name]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert Path("data/compress/model.safetensors").stat().st_size < Path("data/train/model.safetensors").stat().st_size


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two CUDA devices")
@pytest.mark.parametrize("communication", ["none", "fp16", "bf16", "powersgd"])
def test_two_gpus_end_with_the_weights_of_one_with_twice_the_batch(work, communication):
    common = {"epochs": 2}
    trained("one", {"dropout": 0.0}, batch_size=16, **common)
    trained("two", {"dropout": 0.0}, batch_size=8, devices=2, communication=communication, **common)
    for one, other in zip(history("one"), history("two"), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4 if communication == "none" else 0.1)
    if communication == "none":
        assert apart("one", "two") < 1e-3
