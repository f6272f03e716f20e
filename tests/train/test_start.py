from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from plumbline.errors import InputError
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.network import new_spec
from plumbline.prepare.shards import load_shards
from plumbline.pretrained import PACKAGE
from plumbline.train.start import first_weights, freeze, load_pretrained
from plumbline.train.statistics import STANDARDISATION
from tests.train.made import make_params, make_sequences
from tests.train.test_fit import Killed, run, said, work

__all__ = ["said", "work"]


def fresh(**model) -> Diagnosis:
    return Diagnosis(new_spec(make_params(model).model, 24))


def test_frozen_parameters_keep_their_values_and_others_do_not(work):
    run("first", epochs=1)
    run("out", epochs=1, start_from=["first"], freeze=["encoder.distance.*", "*.bias"])
    before, after = (load_file(Path(out) / "model.safetensors") for out in ("first", "out"))
    for name in before:
        if name.startswith("network."):
            kept = name.startswith("network.encoder.distance.") or name.endswith(".bias")
            assert torch.equal(before[name], after[name]) == kept, name


def test_a_pattern_that_fits_nothing_is_refused():
    with pytest.raises(InputError, match=r"train.freeze: 'decoder.\*' fits no parameter. Their names begin with: .*"):
        freeze(fresh(), ["*.bias", "decoder.*"])


def test_freezing_everything_is_refused():
    with pytest.raises(InputError, match="every parameter is frozen"):
        freeze(fresh(), ["*"])


def test_pretrained_weights_come_with_their_standardisation_and_not_with_what_they_had_seen(work, said):
    pretrained, train = fresh(), make_sequences(60, 5)
    first_weights(pretrained, make_sequences(60, 4), make_params().train)
    pretrained.get_buffer("severity_limit").fill_(50)
    save_diagnosis(pretrained, Path("before"))
    model, plain = fresh(), fresh()
    first_weights(model, train, make_params(start_from=["checkpoint", "before", "random"]).train)
    first_weights(plain, train, make_params().train)
    state, wanted, other = model.state_dict(), pretrained.state_dict(), plain.state_dict()
    for name in state:
        same = name.startswith("network.") or name in (*STANDARDISATION, "severity_limit")
        assert torch.equal(state[name], wanted[name]) == same or torch.equal(wanted[name], other[name]), name
    assert torch.equal(state["geometry_middle"], other["geometry_middle"])
    distance = model.novelty_distance(torch.from_numpy(train.geometry))
    assert float(torch.quantile(distance, 0.999)) * 1.1 == pytest.approx(float(state["novelty_limit"]), rel=1e-4)
    assert "INFO weights: pretrained, from before" in said


def test_the_first_of_the_list_that_is_there_is_taken(work, said):
    run("first", epochs=1)
    run("out", epochs=1, start_from=["elsewhere", "first", "random"])
    assert any(line.startswith("WARNING train.start_from: elsewhere has no model.safetensors") for line in said)
    assert "INFO weights: pretrained, from first" in said
    assert not any("drawn at random" in line for line in said[said.index("INFO weights: pretrained, from first") :])


def test_a_package_in_the_list_is_refused_and_not_passed_over(work):
    """Training would begin at random, for hours, where a model was named."""
    with pytest.raises(InputError, match=r"train\.start_from: .*package is a model package, .* as data/train, or `pre"):
        run(start_from=["checkpoint", str(PACKAGE), "random"])


def test_nothing_of_the_list_is_there(work):
    with pytest.raises(InputError, match=r"none of it is there\. Add `random`"):
        run(start_from=["elsewhere"])
    with pytest.raises(InputError, match="no run with these data and params was interrupted"):
        run(start_from=["checkpoint"])


def test_without_the_word_checkpoint_an_interrupted_run_begins_anew(work, said):
    with pytest.raises(Killed):
        run(dies_before=1, start_from=["random"])
    run(start_from=["random"])
    assert not any("resuming" in line for line in said)


def test_other_widths_are_refused_naming_the_first_that_differs(tmp_path):
    folder = tmp_path / "pretrained"
    save_diagnosis(fresh(hidden=12), folder)
    with pytest.raises(
        InputError,
        match=r"pretrained: network.geometry.0.weight: shape \(12, \d+\) found, shape \(16, \d+\) needed",
    ):
        load_pretrained(fresh(), folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match="not readable"):
        load_pretrained(fresh(), folder)


@pytest.mark.parametrize("order", [["random", "checkpoint"], ["random", "folder"], ["folder", "checkpoint"]])
def test_an_order_that_cannot_be_is_refused(order):
    with pytest.raises(InputError, match="checkpoint can only come first, and random only last"):
        make_params(start_from=order)


def test_a_run_depends_on_the_pretrained_model(work, said):
    """Another model in the same folder is another run: its checkpoint is not taken up."""
    run("first", epochs=1)
    changed = {"start_from": ["checkpoint", "first"], "epochs": 2}
    with pytest.raises(Killed):
        run("out", dies_before=1, **changed)
    model = load_diagnosis(Path("first"))
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_diagnosis(model, Path("first"))
    run("out", **changed)
    assert not any("resuming" in line for line in said)
    assert len(load_shards(Path("data/prepare/train"))) == 160
