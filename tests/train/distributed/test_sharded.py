"""Real runs of two processes by each strategy, and from one's checkpoint by another."""

import contextlib
import re
import shutil

import pytest

from plumbline.params import parse_params
from plumbline.prepare.features.shards import save_shards
from tests.ports import free_port
from tests.train.data.test_distributed_sampler import apart
from tests.train.distributed import crossed
from tests.train.distributed.crossed import Case
from tests.train.distributed.test_strategies import both
from tests.train.fit.test_trainer import history
from tests.train.made import make_sequences, save_prepared, settings

pytestmark = pytest.mark.slow
SEVERAL = ("ddp", "fsdp", "zero2")
CHANGES = (("one", "fsdp"), ("fsdp", "zero2"), ("zero2", "ddp"), ("ddp", "one"), ("fsdp", "one"))
"""Each strategy's checkpoint goes on under another, and each goes on from another's."""
ASKED = {
    "epochs": 2,
    "batch_size": 8,
    "balance": "weights",
    "gradient_clip": 0.5,  # of norms of 2 and more
    "ema_decay": 0.9,
    "freeze": ["geometry.*"],  # which the optimiser has no state of
}


def asked(strategy, **changed):
    """Params of the same steps by one process or by two; the last step has 3 buildings for 4 shares."""
    shares = {"accumulate": 4} if strategy == "one" else {"accumulate": 2, "devices": 2, "strategy": strategy}
    content = settings({"dropout": 0.0}, **{**ASKED, **shares, **changed})
    content["compress"] |= {"accumulate": shares["accumulate"], "batch_size": 8, "epochs": 1, "ema_decay": 0.9}
    return parse_params(content)


def case(name, strategy, dies=False, begun_by=None, pruned=False, **changed):
    return Case(name, asked(strategy, **changed), free_port(), dies, begun_by, pruned)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A project with a folder for each run, and what the first process of two said."""
    project = tmp_path_factory.mktemp("crossed")
    save_prepared(project / "data" / "prepare")
    save_shards([make_sequences(163, 3)], project / "data" / "prepare" / "train")
    alone = [case("one", "one"), case("one-cut", "one", dies=True)]
    pairs = [
        *(case(name, name) for name in SEVERAL),
        *(case(f"{name}-cut", name, dies=True) for name in SEVERAL),
        *(case(f"{a}-{b}", b, begun_by=f"{a}-cut") for a, b in CHANGES if b != "one"),
        *(case(f"{name}-pruned", name, pruned=True) for name in SEVERAL),
    ]
    later = [case(f"{a}-one", "one", begun_by=f"{a}-cut") for a, b in CHANGES if b == "one"]
    later.append(case("one-pruned", "one", pruned=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "file:nowhere")
        for one in alone:
            by_itself(one, project)
        shutil.copytree(project / "one" / "out", project / "data" / "train")
        codes, said = both(project, crossed.main, pairs, free_port())
        assert codes == [0, 0], said
        for one in later:
            by_itself(one, project)
    return project, "".join(said)


def by_itself(one, project):
    """Run a case in this process."""
    crossed.make(one, project)
    with contextlib.chdir(project / one.name):
        crossed.run(one, project)


@pytest.mark.parametrize("strategy", SEVERAL)
def test_two_processes_end_with_the_weights_of_one(done, strategy):
    """With the mean of the weights, clipped gradients, a frozen part and several turns a step."""
    project, _ = done
    assert apart(project / "one" / "out", project / strategy / "out") < 1e-5
    for one, other in zip(history(project / "one" / "out"), history(project / strategy / "out"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)


@pytest.mark.parametrize(("begun", "ended"), CHANGES)
def test_a_run_cut_under_one_strategy_goes_on_under_another(done, begun, ended):
    project, _ = done
    assert len(history(project / f"{begun}-{ended}" / "out")) == 2
    assert apart(project / "one" / "out", project / f"{begun}-{ended}" / "out") < 1e-5


@pytest.mark.parametrize("strategy", ["fsdp", "zero2"])
def test_each_process_keeps_half_of_the_weights(done, strategy):
    _, said = done
    own, all_of_them = map(int, re.search(rf"^{strategy} (\d+) of (\d+)$", said, re.M).groups())
    assert 0.5 * all_of_them <= own < 0.52 * all_of_them


@pytest.mark.parametrize("strategy", SEVERAL)
def test_a_pruned_network_is_fine_tuned_as_by_one(done, strategy):
    """Pruned widths do not divide by two."""
    project, _ = done
    assert apart(project / "one-pruned" / "out", project / f"{strategy}-pruned" / "out") < 1e-5
