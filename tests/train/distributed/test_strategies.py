import json
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch.utilities import rank_zero_only
from mlflow import MlflowClient
from torch import nn
from torch.distributed.run import parse_args

from plumbline.core.errors import InputError, PlumblineError
from plumbline.params import parse_params
from plumbline.prepare.features.shards import save_shards
from plumbline.train.distributed import strategies
from plumbline.train.distributed.launch import one_process_a_device
from plumbline.train.distributed.strategies import (
    POWERSGD_RANK,
    POWERSGD_START,
    check_devices,
    has_batch_norm,
    threads,
    together,
)
from tests.ports import free_port
from tests.train.data.test_distributed_sampler import apart
from tests.train.distributed import ranks, uneven
from tests.train.fit.test_trainer import history, run, search, weights, work
from tests.train.made import make_params, make_sequences, settings

__all__ = ["work"]
ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]), "OMP_NUM_THREADS": "1"}
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it is allowed")


@pytest.mark.parametrize("started", ["forks", pytest.param("as a user does", marks=pytest.mark.chaos)])
def test_two_processes_end_with_the_weights_of_one_with_twice_the_batch(work, monkeypatch, started):
    """Real processes. The last step has 3 buildings for 4 shares, so one share is empty."""
    save_shards([make_sequences(163, 3)], Path("data/prepare/train"))
    model = {"dropout": 0.0}
    changed = {"epochs": 2, "balance": "weights", "accelerator": "cpu"}
    run("one", batch_size=16, model=model, **changed)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    two = settings(model, batch_size=4, accumulate=2, devices=2, **changed)
    Path("params.yaml").write_text(yaml.safe_dump(two))
    if started == "forks":
        codes, _ = both(work, uneven.even)
        said = "".join(Path(f"{rank}.err").read_text() for rank in range(2))
    else:
        own = {name: value for name, value in ENVIRONMENT.items() if name != "MLFLOW_TRACKING_URI"}
        command = [sys.executable, "-m", "plumbline", "train"]
        done = subprocess.run(command, env=own, capture_output=True, text=True)
        codes, said = [done.returncode], done.stderr
    assert not any(codes), said
    assert said.count("epoch 2 of at most 2") == 1  # one of them speaks
    assert "MLflow" not in said  # and one of them makes its tables, which were not there
    assert len(search(MlflowClient(f"sqlite:///{Path('mlflow.db').resolve()}"))) == 1
    assert apart("one", "data/train") < 1e-5
    assert weights("one") != weights("data/train")
    for one, other in zip(history("one"), history("data/train"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    lines = [json.loads(line) for line in next(Path(".plumbline/runs").glob("*/train.jsonl")).read_text().splitlines()]
    assert [line["epoch"] for line in lines if line["kind"] == "epoch"][-2:] == [1, 2]


def two_machines_asked(monkeypatch):
    """Train in one process, leave to two machines what they need for the same, and return the command that is told."""
    model, changed = {"dropout": 0.0}, {"epochs": 2, "accelerator": "cpu"}
    run("one", batch_size=16, model=model, **changed)
    Path("params.yaml").write_text(yaml.safe_dump(settings(model, batch_size=8, devices=1, nodes=2, **changed)))
    monkeypatch.setattr(sys, "argv", ["plumbline", "train"])
    with pytest.raises(InputError, match="torchrun ") as told:
        one_process_a_device(make_params(devices=1, nodes=2).train)
    return str(told.value).split(": torchrun ")[1]


@pytest.mark.slow
def test_two_machines_end_with_the_weights_of_one_with_twice_the_batch(work, monkeypatch):
    """What torchrun sets, it sets for forks here; its own command is held to what it takes. The two share a disk."""
    words = two_machines_asked(monkeypatch).replace("NUMBER", "1").split()
    taken = parse_args(words)
    assert (taken.nnodes, taken.node_rank, taken.nproc_per_node, taken.master_port) == ("2", 1, "1", 29400)
    assert (taken.module, taken.training_script, taken.training_script_args) == (True, "plumbline", ["train"])
    codes, (_, said) = both(work, uneven.even, machines=2)
    assert codes == [0, 0], said
    assert "INFO epoch 2 of" in said  # the first machine speaks
    assert "INFO epoch 2 of" not in Path("1.err").read_text()
    assert apart("one", "data/train") < 1e-5


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
    codes, (_, said) = both(work, uneven.main)
    assert codes == [0, 0], said
    assert "batch size: 32 " in said  # of the first, which speaks for all
    record = json.loads(Path("data/train/record.json").read_text())
    assert record["batch_size"] == 16


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("sent"), str(free_port())
    codes, (out, said) = both(folder, ranks.main, port)
    assert codes == [0, 0], said
    return json.loads(out)


def both(folder, target, *arguments, machines=1):
    """Exit codes of two processes, as torchrun has them, of one machine or two; what the first said on each stream.

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
        "LOCAL_WORLD_SIZE": str(2 // machines),
    }
    own |= {name: os.environ[name] for name in ("MLFLOW_TRACKING_URI",) if name in os.environ}
    places = [
        {"RANK": str(rank), "LOCAL_RANK": str(rank % (2 // machines)), "GROUP_RANK": str(rank * machines // 2)}
        for rank in range(2)
    ]
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


PARAMETERS = 48 * 64 + 64 + 64 * 64 + 64 + 64 * 4
FACTORS = POWERSGD_RANK * (48 + 64 + 64 + 64 + 4 + 64) + 64 + 64
"""Numbers that PowerSGD sends: two factors of each matrix, and vectors whole."""


@pytest.mark.parametrize(
    ("name", "size", "error"),
    [("none", 4 * PARAMETERS, 1e-6), ("fp16", 2 * PARAMETERS, 1e-3), ("bf16", 2 * PARAMETERS, 1e-2)],
)
def test_a_hook_sends_its_share_of_the_bytes_and_gives_everybody_the_same_mean(sent, name, size, error):
    """Bytes as the system counts them for the processes' own connections; up to what surrounds each message."""
    found = sent[name]
    assert 0.98 * size < found["wire"] < 1.02 * size + 2000
    assert found["alike"]
    assert max(found["errors"]) < error
    assert name == "none" or min(found["errors"]) > error / 1e3  # it did compress
    np.testing.assert_allclose(found["losses"], sent["none"]["losses"], rtol=3 * error)


def test_powersgd_sends_two_factors_of_each_matrix_from_the_step_that_it_is_to_start_at(sent):
    found = sent["powersgd"]
    assert 0.98 * 4 * FACTORS < found["wire"] < 1.02 * 4 * FACTORS + 2000
    assert found["alike"]
    assert found["losses"][-1] < 0.5 * found["losses"][0]
    assert max(found["errors"][:POWERSGD_START]) < 1e-6
    assert max(found["errors"]) > 0.01  # it did compress
    assert found["losses"][:POWERSGD_START] == pytest.approx(sent["none"]["losses"][:POWERSGD_START], rel=1e-5)


def test_powersgd_is_refused_on_the_cpu_beside_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = make_params(devices=2, communication="powersgd", accelerator="cpu").train
    with pytest.raises(InputError, match=r"train\.communication: powersgd found, .*CUDA_VISIBLE_DEVICES="):
        check_devices(asked)
    check_devices(asked.model_copy(update={"communication": "bf16"}))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    check_devices(asked.model_copy(update={"accelerator": "auto"}))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"precision": "fp16", "accelerator": "cpu"}, "train.precision: fp16 found, which needs a GPU"),
        ({"compile": True}, "train.compile: true found, and no C.. compiler no-such-compiler"),
        pytest.param({"accelerator": "gpu"}, "train.accelerator: gpu found, and there is none", marks=no_gpu),
    ],
)
def test_what_the_machine_lacks_is_refused(changed, message, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match=message):
        check_devices(make_params(**changed).train)


@pytest.mark.parametrize("network", [{"attention": "ragged"}, {"compile": True}])
def test_what_a_gpu_compiles_wants_a_c_compiler(network, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    attention = network.get("attention", "sdpa")
    changed = {"compile": network.get("compile", False), "accelerator": "auto"}
    found = "train.compile: true" if changed["compile"] else f"model.attention: {attention}"
    with pytest.raises(InputError, match=f"{found} found, and no C compiler no-such-compiler"):
        check_devices(make_params(**changed).train, attention)
    check_devices(make_params(**changed | {"accelerator": "cpu"}).train, attention)


@pytest.mark.parametrize(("variable", "there"), [(None, "gcc"), (None, "clang"), ("/opt/bin/cc-15", "/opt/bin/cc-15")])
def test_the_compilers_that_torch_finds_will_do(variable, there, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr("shutil.which", lambda name: name if name == there else None)
    monkeypatch.delenv("CC", raising=False)
    if variable is not None:
        monkeypatch.setenv("CC", variable)
    check_devices(make_params(accelerator="auto").train, "ragged")
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(InputError, match="no C compiler"):
        check_devices(make_params(accelerator="auto").train, "ragged")


@pytest.mark.parametrize(("variable", "told"), [("g++ -O1", r"g\+\+ -O1"), ("env g++", r"env g\+\+"), ("", "''")])
def test_a_compiler_that_torch_cannot_start_is_refused(variable, told, monkeypatch):
    """Torch runs the whole value as one command; without a word of it training would end in its traceback."""
    monkeypatch.setenv("CXX", variable)
    with pytest.raises(InputError, match=rf"no C\+\+ compiler {told}\. .* without options, .* CXX"):
        check_devices(make_params(accelerator="cpu", compile=True).train, "sdpa")


def test_a_process_that_is_gone_is_told_of_in_a_line_and_other_errors_are_not():
    with pytest.raises(PlumblineError, match="cannot be reached, so this one stops"), together():
        raise RuntimeError("[third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer")
    with pytest.raises(RuntimeError, match="shape"), together():
        raise RuntimeError("shape mismatch")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"precision": "fp16"}, "precision: fp16 found with strategy fsdp, .* Use precision bf16 or 32"),
        ({"strategy": "zero2", "communication": "bf16"}, "communication: bf16 works with strategy ddp, not"),
        ({"compile": True}, "compile: true found with strategy fsdp, which shards the weights"),
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


@pytest.mark.parametrize("accelerator", ["cpu", "gpu"])
def test_several_processes_share_the_cores_of_a_machine(accelerator):
    cores = len(os.sched_getaffinity(0))
    assert threads(make_params(accelerator=accelerator, devices=2, threads=0).train) == max(1, cores // 2)
    assert threads(make_params(accelerator="cpu", devices=2, threads=3).train) == 3


def test_batch_norms_are_found_wherever_they_are():
    assert has_batch_norm(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2))))
    assert not has_batch_norm(nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)))
