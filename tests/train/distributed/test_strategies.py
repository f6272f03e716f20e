import json
import multiprocessing
import os
import subprocess
import sys
from contextlib import nullcontext
from multiprocessing.connection import wait
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import yaml
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from plumbline import __main__ as program
from plumbline.core.errors import InputError, PlumblineError
from plumbline.params import parse_params
from plumbline.prepare.features.shards import save_shards
from plumbline.train.distributed import strategies
from plumbline.train.distributed.launch import one_process_a_device
from plumbline.train.distributed.strategies import check_devices, comm_hook, threads, together
from plumbline.train.fit import batch_size as auto_batch_size
from tests.ports import free_port
from tests.refusals import refuses
from tests.train.data.test_distributed_sampler import apart
from tests.train.fit.test_trainer import history, run, weights
from tests.train.made import make_params, make_sequences, settings

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]), "OMP_NUM_THREADS": "1"}


def test_two_processes_end_with_the_weights_of_one_with_twice_the_batch(work):
    """Real processes. The last step has 3 buildings for 4 shares, so one share is empty."""
    save_shards([make_sequences(163, 3)], Path("data/prepare/train"))
    model, changed = {"dropout": 0.0}, {"epochs": 1, "balance": "weights", "accelerator": "cpu"}
    run("one", batch_size=16, model=model, **changed)
    two = settings(model, batch_size=4, accumulate=2, devices=2, **changed)
    Path("params.yaml").write_text(yaml.safe_dump(two))
    both(work, trained)
    said = "".join(Path(f"{rank}.err").read_text() for rank in range(2))
    assert said.count("epoch 1 of at most") == 1  # one of them speaks
    assert apart("one", "data/train") < 1e-5
    assert weights("one") != weights("data/train")
    for one, other in zip(history("one"), history("data/train"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    lines = [json.loads(line) for line in next(Path(".plumbline/runs").glob("*/train.jsonl")).read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["kind"] == "epoch"] == [1]


def trained():
    """Run `plumbline train` in the working directory, as the variables of torchrun say."""
    sys.argv = ["plumbline", "train"]
    program.main()


def trained_unevenly():
    """The same, and the second process finds a quarter of the first's memory free."""
    auto_batch_size.free_bytes = lambda gpu: int(20e6 / 4 ** int(os.environ["RANK"]))
    trained()


def two_machines_asked(monkeypatch):
    """Train in one process, leave to two machines what they need for the same, and return the command that is told."""
    model, changed = {"dropout": 0.0}, {"epochs": 2, "accelerator": "cpu"}
    run("one", batch_size=16, model=model, **changed)
    Path("params.yaml").write_text(yaml.safe_dump(settings(model, batch_size=8, devices=1, nodes=2, **changed)))
    monkeypatch.setattr(sys, "argv", ["plumbline", "train"])
    with refuses("nodes.no_torchrun") as refusal:
        one_process_a_device(make_params(devices=1, nodes=2).train)
    return str(refusal.value).split(": torchrun ")[1]


@pytest.mark.chaos
@pytest.mark.slow
def test_two_machines_by_the_command_that_a_user_without_a_torchrun_is_told(work, monkeypatch):
    words = two_machines_asked(monkeypatch).replace("ADDRESS", "127.0.0.1").replace("29400", str(free_port()))
    started = []
    for number in range(2):
        command = [sys.executable, "-m", "torch.distributed.run", *words.replace("NUMBER", str(number)).split()]
        started.append(subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True))
    said = [one.communicate()[1] for one in started]
    assert [one.returncode for one in started] == [0, 0], said
    assert ["INFO epoch 2 of" in one for one in said] == [True, False]
    assert apart("one", "data/train") < 1e-5


@pytest.mark.slow
def test_processes_agree_on_a_batch_size_and_compress_gradients(work):
    """Each by itself would take another size, and wait for the other for ever."""
    save_shards([make_sequences(700, 3)], Path("data/prepare/train"))
    asked = settings(epochs=2, batch_size="auto", devices=2, communication="powersgd", accelerator="cpu")
    Path("params.yaml").write_text(yaml.safe_dump(asked))
    codes, (_, said) = both(work, trained_unevenly)
    assert codes == [0, 0], said
    assert "batch size: 32 " in said  # of the first, which speaks for all
    record = json.loads(Path("data/train/record.json").read_text())
    assert record["batch_size"] == 16


def both(folder, target, *arguments):
    """Exit codes of two processes, as torchrun has them; what the first said on each stream.

    They are forks of a process that has loaded what training takes four seconds to. They have as long as they take;
    where one fails, the other is ended, and so is the test, with what each of them said.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["plumbline.train.stage", "plumbline.cli", "mlflow.tracking"])
    # PowerSGD would wait for a GPU.
    own = {
        **ENVIRONMENT,
        "CUDA_VISIBLE_DEVICES": "",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "TORCHELASTIC_RUN_ID": "one",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
    }
    own |= {name: os.environ[name] for name in ("MLFLOW_TRACKING_URI",) if name in os.environ}
    places = [{"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"} for rank in range(2)]
    started = [context.Process(target=as_rank, args=(own | rank, folder, target, *arguments)) for rank in places]
    for one in started:
        one.start()
    at_work = {one.sentinel: one for one in started}
    while at_work:
        for sentinel in wait(list(at_work)):
            one = at_work.pop(sentinel)
            one.join()
            if one.exitcode:  # the others would wait for it
                for other in at_work.values():
                    other.kill()
    said = {path: path.read_text() for rank in range(2) for path in (folder / f"{rank}.out", folder / f"{rank}.err")}
    codes = [one.exitcode for one in started]
    assert codes == [0, 0], "\n".join(f"--- {path.name}\n{text}" for path, text in said.items())
    return codes, [said[folder / f"0.{name}"] for name in ("out", "err")]


def as_rank(environment, folder, target, *arguments):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    rank = environment["RANK"]
    rank_zero_only.rank = int(rank)  # for which Lightning asks when it loads
    for number, name in ((1, "out"), (2, "err")):
        with Path(f"{rank}.{name}").open("w") as stream:
            os.dup2(stream.fileno(), number)
    target(*arguments)


@pytest.fixture
def group():
    """A process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(("kind", "exact", "error"), [("fp16", 0, 1e-3), ("bf16", 0, 1e-2), ("powersgd", 10, 0.9)])
def test_gradients_are_compressed_as_asked_on_a_cpu_too(group, kind, exact, error):
    """PowerSGD sends them whole in its first steps, and then two narrow factors of each matrix."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 4))
    wrapped = DistributedDataParallel(module)
    wrapped.register_comm_hook(*comm_hook(kind))
    for step in range(exact + 2):
        x, y = torch.randn(32, 48), torch.randn(32, 4)
        whole = torch.autograd.grad(nn.functional.mse_loss(module(x), y), list(module.parameters()))
        wrapped.zero_grad()
        nn.functional.mse_loss(wrapped(x), y).backward()
        sent, wanted = (
            torch.cat([values.flatten() for values in parts])
            for parts in ([parameter.grad for parameter in module.parameters()], whole)
        )
        apart_by = float((sent - wanted).norm() / wanted.norm())
        assert apart_by < 1e-6 if step < exact else error / 1e3 < apart_by < error


@pytest.mark.parametrize(
    ("changed", "gpus", "key", "place"),
    [
        ({"precision": "fp16"}, 0, "precision.no_gpu", "train.precision: fp16 "),
        ({"accelerator": "gpu"}, 0, "accelerator.no_gpu", "train.accelerator: gpu "),
        ({"accelerator": "auto", "devices": 3}, 2, "devices.too_few_gpus", "train.devices: 3 found, and there are 2 "),
        # PowerSGD waits for the GPU wherever there is one.
        ({"communication": "powersgd"}, 2, "communication.powersgd_on_cpu", "CUDA_VISIBLE_DEVICES="),
        ({"communication": "powersgd", "accelerator": "auto"}, 2, None, ""),
        ({"communication": "bf16"}, 2, None, ""),
    ],
    ids=str,
)
def test_what_the_machine_lacks_is_refused(changed, gpus, key, place, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    asked = make_params(**{"accelerator": "cpu", **changed}).train
    with refuses(key, place) if key else nullcontext():
        check_devices(asked)


@pytest.mark.parametrize(("gpus", "places"), [(0, ("(g++)", "variable CXX")), (1, ("(gcc or clang)", "variable CC,"))])
def test_without_a_compiler_nothing_is_compiled(gpus, places, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    wanted = make_params(accelerator="auto", compile=True).train
    with refuses("compile.no_compiler", "train.compile: true ", *places):
        check_devices(wanted)
    for variable in ("CC", "CXX"):
        monkeypatch.setenv(variable, sys.executable)
    check_devices(wanted)


def test_a_process_that_is_gone_is_told_of_in_a_line_and_other_errors_are_not():
    with refuses("process.unreachable", error=PlumblineError), together():
        raise RuntimeError("[third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shape"), together():
        raise RuntimeError("shape mismatch")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"precision": "fp16"}, "precision: fp16 .* fsdp, .* bf16 or 32"),
        ({"strategy": "zero2", "communication": "bf16"}, "communication: bf16 .* ddp"),
        ({"compile": True}, "compile: true .* fsdp"),
    ],
)
def test_what_sharded_weights_cannot_do_is_refused(changed, message):
    content = settings(strategy="fsdp")
    content["train"] |= changed
    with pytest.raises(InputError, match=message):
        parse_params(content)


def test_float32_is_float32_on_a_gpu_and_the_same_each_time(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    torch.backends.cuda.enable_cudnn_sdp(True)
    strategies.repeatable()
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cudnn.deterministic
    assert torch.get_float32_matmul_precision() == "highest"  # both ways to say it are not mixed, which torch refuses


def test_several_processes_share_the_cores_of_a_machine():
    cores = len(os.sched_getaffinity(0))
    assert threads(make_params(devices=2, threads=0).train) == max(1, cores // 2)
    assert threads(make_params(devices=2, threads=3).train) == 3
