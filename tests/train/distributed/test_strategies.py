import json
import multiprocessing
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch.plugins.precision import FSDPPrecision
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities import rank_zero_only
from mlflow import MlflowClient
from torch import nn
from torch.distributed.fsdp import MixedPrecision
from torch.distributed.run import parse_args

from plumbline.core.errors import InputError, PlumblineError
from plumbline.params import parse_params
from plumbline.prepare.features.shards import save_shards
from plumbline.train.distributed import strategies
from plumbline.train.distributed.comm_hooks import BLOCK, Communication, dequantise, quantise
from plumbline.train.distributed.launch import one_process_a_device
from plumbline.train.distributed.strategies import (
    check_devices,
    choose_strategy,
    clip,
    has_batch_norm,
    threads,
    together,
)
from plumbline.train.fit.resume import read_checkpoint
from tests.machines import two_machines
from tests.ports import free_port
from tests.train.data.test_distributed_sampler import apart
from tests.train.distributed import ranks, uneven
from tests.train.distributed.ranks import OF_RANK_2
from tests.train.fit.test_trainer import history, run, search, weights, work
from tests.train.made import make_params, make_sequences, settings

__all__ = ["work"]
ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)]), "OMP_NUM_THREADS": "1"}
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU it is allowed")


@pytest.mark.slow
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
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=280)
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
@pytest.mark.parametrize("apart_by", ["a torchrun", "a network"])
def test_two_machines_by_the_command_that_a_user_without_a_torchrun_is_told(work, monkeypatch, apart_by):
    words = two_machines_asked(monkeypatch)
    with nullcontext() if apart_by == "a torchrun" else two_machines(work) as machines:
        address, port = ("127.0.0.1", free_port()) if machines is None else (machines[0].address, 29400)
        started = []
        for number in range(2):
            own = words.replace("NUMBER", str(number)).replace("ADDRESS", address).replace("29400", str(port))
            command = [sys.executable, "-m", "torch.distributed.run", *own.split()]
            command = command if machines is None else machines[number].command(*command)
            started.append(subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True))
        said = [one.communicate(timeout=250)[1] for one in started]
    assert [one.returncode for one in started] == [0, 0], said
    assert ["INFO epoch 2 of" in one for one in said] == [True, False]
    assert apart("one", "data/train") < 1e-5


@pytest.mark.slow
def test_processes_agree_on_a_batch_size_and_send_gradients_as_asked(work):
    """Each by itself would take another size, and wait for the other for ever."""
    save_shards([make_sequences(700, 3)], Path("data/prepare/train"))
    asked = settings(epochs=2, batch_size="auto", devices=2, communication="int8", accelerator="cpu")
    Path("params.yaml").write_text(yaml.safe_dump(asked))
    codes, (_, said) = both(work, uneven.main)
    assert codes == [0, 0], said
    assert "batch size: 32 " in said  # of the first, which speaks for all
    record = json.loads(Path("data/train/record.json").read_text())
    assert record["batch_size"] == 16
    sent = record["communication"]
    assert sent["hook"] == "int8"
    # Of so few parameters the scales are a part, and each of two processes rounds its half up.
    assert 0.25 <= sent["bytes_a_step"] / sent["uncompressed"] < 0.26
    assert sent["uncompressed"] == pytest.approx(4 * record["parameters"]["trained"], rel=0.01)


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("sent"), str(free_port())
    codes, (out, said) = both(folder, ranks.main, port)
    assert codes == [0, 0], said
    return json.loads(out)


def both(folder, target, *arguments, machines=1):
    """Exit codes of two processes, as torchrun has them, of one machine or two; what the first said on each stream.

    They are forks of a process that has loaded what training takes four seconds to.
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
    for one in started:
        one.join(140)
        if one.exitcode:  # the other would wait for it
            for other in started:
                other.kill()
    return [one.exitcode for one in started], [(folder / f"0.{name}").read_text() for name in ("out", "err")]


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


@pytest.mark.parametrize(
    ("name", "share", "error"), [("none", 1, 1e-6), ("fp16", 0.5, 1e-3), ("bf16", 0.5, 1e-2), ("int8", 0.2505, 5e-2)]
)
def test_a_hook_sends_its_share_of_the_bytes_and_gives_everybody_the_same_mean(sent, name, share, error):
    found = sent[name]
    assert found["bytes"] == pytest.approx(share * found["plain"], rel=1e-3)
    assert found["alike"]
    assert max(found["errors"]) < error
    assert name == "none" or min(found["errors"]) > error / 1e3  # it did compress
    np.testing.assert_allclose(found["losses"], sent["none"]["losses"], rtol=3 * error)


@pytest.mark.parametrize("name", ["none", "fp16", "bf16", "int8", "powersgd"])
def test_the_bytes_that_are_counted_are_those_on_the_wire(sent, name):
    """As the system counts them for the processes' own connections; up to what surrounds each message."""
    found = sent[name]
    assert 0.98 * found["bytes"] < found["wire"] < 1.02 * found["bytes"] + 2000


def test_plain_bytes_are_those_of_a_ring_of_two(sent):
    parameters = 48 * 64 + 64 + 64 * 64 + 64 + 64 * 4
    assert sent["none"]["bytes"] == 4 * parameters
    assert {found["plain"] for found in sent.values()} == {4 * parameters}


def test_powersgd_sends_two_factors_of_each_matrix_and_vectors_whole(sent):
    """As wide as `powersgd_rank` asks. Of the narrow last matrix as well: 3 (4 + 64) numbers in place of 256."""
    found = sent["powersgd"]
    assert found["bytes"] == 4 * (3 * (48 + 64) + 64 + 3 * (64 + 64) + 64 + 3 * (4 + 64))
    assert sent[OF_RANK_2]["bytes"] == 4 * (2 * (48 + 64) + 64 + 2 * (64 + 64) + 64 + 2 * (4 + 64))
    assert sent[OF_RANK_2]["bytes"] < found["plain"] / 8
    assert found["alike"]
    assert found["losses"][-1] < 0.5 * found["losses"][0]
    assert max(found["errors"]) > 0.01  # it did compress


def test_powersgd_sends_whole_gradients_until_the_step_that_it_is_to_start_at(sent):
    found, start = sent["powersgd"], 3
    assert found["sent"] == [found["plain"]] * start + [found["bytes"]] * (len(found["sent"]) - start)
    assert max(found["errors"][:start]) < 1e-6
    assert found["losses"][:start] == pytest.approx(sent["none"]["losses"][:start], rel=1e-5)


@pytest.mark.parametrize("size", [1, 7, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_int8_codes_are_within_half_a_step_of_the_value(size):
    value = torch.randn(2, size, generator=torch.Generator().manual_seed(0)) * torch.tensor([[1e-6], [1e3]])
    code, scale = quantise(value)
    assert code.dtype == torch.int8
    assert code.shape == value.shape
    assert scale.shape == (2, -(-size // BLOCK))
    step = scale.repeat_interleave(BLOCK, 1)[:, :size]
    assert ((dequantise(code, scale) - value).abs() <= 0.5001 * step).all()
    assert torch.equal(dequantise(*quantise(torch.zeros(2, size))), torch.zeros(2, size))


def test_a_gradient_that_is_no_number_stays_none_in_int8():
    value = torch.ones(1, 2 * BLOCK)
    value[0, 5] = torch.nan
    back = dequantise(*quantise(value))
    assert back[0, :BLOCK].isnan().all()
    assert torch.equal(back[0, BLOCK:], value[0, BLOCK:])


def test_powersgd_is_refused_on_the_cpu_beside_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    asked = make_params(devices=2, communication="powersgd", accelerator="cpu").train
    with pytest.raises(InputError, match=r"train\.communication: powersgd found, .*CUDA_VISIBLE_DEVICES="):
        check_devices(asked)
    check_devices(asked.model_copy(update={"communication": "int8"}))
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


@pytest.mark.parametrize("network", [{"attention": "flex"}, {"attention": "ragged"}, {"compile": True}])
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
    check_devices(make_params(accelerator="auto").train, "flex")
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(InputError, match="no C compiler"):
        check_devices(make_params(accelerator="auto").train, "flex")


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


@pytest.mark.parametrize("strategy", ["fsdp", "deepspeed_stage_2"])
def test_strategies_that_need_a_gpu_are_refused_without_one(strategy):
    with pytest.raises(InputError, match=f"train.strategy: {strategy} found, which needs a GPU"):
        choose_strategy(make_params(strategy=strategy, accelerator="cpu").train)


def test_fsdp_keeps_weights_and_statistics_in_float32_whatever_the_precision(monkeypatch):
    """Lightning's own choice is to round them: then the standardisation that is saved would be that of 16 bits."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for precision in ("32-true", "bf16-mixed"):
        strategy = choose_strategy(make_params(accelerator="gpu", strategy="fsdp", devices=2).train)
        strategy.precision_plugin = FSDPPrecision(precision)
        assert strategy.mixed_precision_config == MixedPrecision(None, None, None)


def test_a_missing_deepspeed_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(InputError, match="pip install deepspeed"):
        choose_strategy(make_params(accelerator="gpu", strategy="deepspeed_stage_2", devices=2).train)


def test_deepspeed_needs_no_batch_sampler(monkeypatch):
    """Lightning looks for one to find the size of a batch, and ours has none."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr(strategies, "DeepSpeed", lambda **given: given)
    assert choose_strategy(make_params(accelerator="gpu", strategy="deepspeed_stage_2", devices=2).train) == {
        "stage": 2,
        "logging_batch_size_per_gpu": 1,
    }


def test_deepspeed_does_not_divide_by_the_number_of_batches_again():
    seen = {}

    def backward(loss, model, optimiser, **options):
        seen.update(options)

    strategy = object.__new__(strategies.DeepSpeed)
    strategy._model = strategy._lightning_module = nn.Linear(1, 1)
    strategy._precision_plugin = SimpleNamespace(
        pre_backward=lambda loss, module: loss, backward=backward, post_backward=lambda loss, module: loss
    )
    assert strategy.backward(torch.ones(()), None) == 1
    assert seen == {"scale_wrt_gas": False}


@pytest.mark.parametrize(("said", "norm"), [(None, 0.0), (2.5, 2.5), (torch.tensor(3.0), 3.0)])
def test_deepspeed_says_the_norm_of_the_step_before(monkeypatch, said, norm):
    class Engine:
        def get_global_grad_norm(self):
            return said

    class Parted:
        model = Engine()

    monkeypatch.setattr(strategies, "DeepSpeedStrategy", Parted)
    assert clip(SimpleNamespace(trainer=SimpleNamespace(strategy=Parted())), 1.0).item() == norm


def test_gradients_of_another_strategy_than_ddp_are_sent_as_it_does():
    """In Lightning, DeepSpeed's strategy is one of DDP's, and its model takes no hook."""
    strategy = DDPStrategy()
    strategy._model = nn.Linear(1, 1)
    sent = Communication(make_params().train)
    sent.on_train_start(SimpleNamespace(strategy=strategy), None)
    assert sent.hook is None


def test_a_folder_of_parts_is_read_anew_each_time(tmp_path, monkeypatch):
    """The next epoch is written into it; and of several processes each reads for itself."""
    epochs = iter((1, 2))
    monkeypatch.setattr(
        "lightning.pytorch.utilities.deepspeed.convert_zero_checkpoint_to_fp32_state_dict",
        lambda folder, whole: torch.save({"epoch": next(epochs)}, whole),
    )
    assert [read_checkpoint(tmp_path)["epoch"] for _ in range(2)] == [1, 2]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("section", "changed", "message"),
    [
        ("train", {"strategy": "deepspeed_stage_2", "precision": "bf16"}, "precision: bf16 found with strategy deepsp"),
        ("train", {"compile": True}, "compile: true found with strategy fsdp, which deals the weights out"),
        ("compress", {"ema_decay": 0.9}, r"compress.ema_decay: 0.9 found, which needs train.strategy auto or ddp"),
    ],
)
def test_what_weights_in_parts_cannot_do_is_refused(section, changed, message):
    content = settings(strategy="fsdp")
    content[section] |= changed
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
