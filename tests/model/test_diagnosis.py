import json
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from plumbline import pretrained
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file, write_json
from plumbline.export.weights import load_network
from plumbline.model.diagnosis import SEVERITY_FLOOR, YEARS, asinh, asinh_written_out, load_diagnosis, save_diagnosis
from tests.model.made import inputs, small_model
from tests.refusals import refuses


@given(st.lists(st.floats(0, 50), min_size=1, max_size=20), st.integers(0, 5))
def test_permille_undoes_standard_severity(values, seed):
    model, permille = small_model(seed=seed), torch.tensor(values)
    torch.testing.assert_close(model.permille(model.standard_severity(permille)), permille, atol=1e-4, rtol=1e-4)


def test_permille_is_never_negative():
    model = small_model()
    assert model.permille(torch.tensor([-100.0, -5.0])).tolist() == [0.0, 0.0]
    model.get_buffer("severity_mean").fill_(0.0)
    model.get_buffer("severity_sd").fill_(1.0)
    assert model.permille(torch.tensor(0.0)).item() == pytest.approx(1 - SEVERITY_FLOOR)


@given(st.lists(st.floats(-(2.0**50), 2.0**50, width=32), min_size=1, max_size=20))
def test_the_written_out_inverse_sine_is_torchs(values):
    x = torch.tensor(values)
    torch.testing.assert_close(asinh_written_out(x), x.asinh(), atol=1e-6, rtol=1e-6)


def test_the_written_out_inverse_sine_of_any_number_is_finite():
    x = torch.tensor([float("inf"), -float("inf"), 3.4e38, -1e30, 0.0])
    assert torch.isfinite(asinh_written_out(x)).all()
    assert asinh_written_out(x).sign().tolist() == [1, -1, 1, -1, 0]


@given(st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=1, max_size=20))
def test_the_slope_of_what_is_compressed_is_that_of_the_inverse_sine(values):
    x = torch.tensor([0.0, *values], requires_grad=True)
    asinh(x).sum().backward()
    torch.testing.assert_close(x.grad, 1 / (x.detach() ** 2 + 1).sqrt())


def test_answers_have_their_shapes_and_probabilities_their_sum():
    with torch.inference_mode():
        answer = small_model()(*inputs([4, 9, 1]))
    assert [tuple(part.shape) for part in answer] == [(3, 4), (3,), (3,), (3,), (3,), (3, 4), (3, 5), (3, 16), (3, 6)]
    for name in ("quadrant", "category", "level", "mechanism"):
        torch.testing.assert_close(getattr(answer, f"{name}_probability").sum(-1), torch.ones(3))
    assert ((answer.accepted_probability > 0) & (answer.accepted_probability < 1)).all()


def test_a_category_is_as_probable_as_its_levels_together():
    """0.1 to 0.4 permille are levels of category 0; 0.5 and 0.6 of 1; 0.75 to 1.25 of 2; 1.5 to 2.5 of 3; then 4."""
    with torch.inference_mode():
        answer = small_model()(*inputs([4, 9, 1]))
    parts = answer.level_probability.split([5, 2, 3, 3, 3], dim=1)
    wanted = torch.stack([part.sum(1) for part in parts], dim=1)
    torch.testing.assert_close(answer.category_probability, wanted)


def test_temperature_divides_the_logits():
    model, batch = small_model(), inputs([4, 9])
    with torch.inference_mode():
        logits = model.raw(*batch).logits_B4
        model.get_buffer("temperature").fill_(2.5)
        model.get_buffer("quadrant_scale").fill_(1.0)
        torch.testing.assert_close(model(*batch).quadrant_probability, (logits / 2.5).softmax(-1))


def test_scales_and_shifts_are_of_the_log_odds():
    model, batch = small_model(), inputs([4, 9])
    shift = torch.tensor([0.5, -1.0, 2.0, 0.0, -0.5])
    with torch.inference_mode():
        raw = model.raw(*batch)
        for name, value in (("accepted", 3.0), ("level", 0.5), ("mechanism", 2.0)):
            model.get_buffer(f"{name}_scale").fill_(value)
        model.get_buffer("accepted_shift").fill_(-1.0)
        model.get_buffer("level_shift").copy_(shift)
        answer = model(*batch)
    torch.testing.assert_close(answer.accepted_probability, (3 * raw.accepted_B4 - 1).sigmoid())
    torch.testing.assert_close(answer.mechanism_probability, (2 * raw.mechanism_BM).softmax(-1))
    of_level = shift.repeat_interleave(torch.tensor([5, 2, 3, 3, 3]))
    torch.testing.assert_close(answer.level_probability, (raw.levels_BK / 2 + of_level).softmax(-1))


def test_novelty_is_the_whitened_distance_over_its_limit():
    model, batch = small_model(), inputs([4, 9])
    with torch.inference_mode():
        one = model(*batch).novelty
        mean, sd = model.get_buffer("geometry_mean"), model.get_buffer("geometry_sd")
        standard = torch.asinh((batch[2] - mean) / sd)
        wanted = (standard @ model.get_buffer("novelty_whitening")).square().mean(-1).sqrt() / 3.0
        torch.testing.assert_close(one, wanted)
        model.get_buffer("novelty_limit").fill_(6.0)
        torch.testing.assert_close(model(*batch).novelty, one / 2)


def test_a_time_is_strange_where_it_is_shorter_than_the_least_and_never_where_it_is_longer():
    model = small_model()
    model.get_buffer("least_years").fill_(0.9)
    geometry = inputs([4])[2].expand(4, -1).clone()
    geometry[:, YEARS] = torch.tensor([0.0, 0.3, 0.9, 40.0])
    model.get_buffer("novelty_limit").fill_(1e9)
    none, short, least, long = model.novelty(geometry).tolist()
    assert none > 100
    assert short == pytest.approx(3.0)
    assert least == pytest.approx(1.0)
    assert long == pytest.approx(0.9 / 40)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "none"])
def test_saved_and_loaded_gives_the_same_answers(tmp_path, position):
    model, batch = small_model(position=position), inputs([4, 9, 1])
    save_diagnosis(model.train(), tmp_path)
    loaded = load_diagnosis(tmp_path)
    assert not loaded.training
    with torch.inference_mode():
        for left, right in zip(model.eval()(*batch), loaded(*batch), strict=True):
            torch.testing.assert_close(left, right, atol=0, rtol=0)
    assert loaded.network.spec == model.network.spec
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


def spoil_weights(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes({"cut": content[:-100], "header": b"\xff" * 8 + content[8:], "empty": b""}[how])


@pytest.mark.parametrize("how", ["missing", "cut", "header", "empty"])
def test_damaged_weights_are_an_input_error(tmp_path, how):
    save_diagnosis(small_model(), tmp_path)
    spoil_weights(tmp_path / "model.safetensors", how)
    with refuses("model.unreadable", tmp_path):
        load_diagnosis(tmp_path)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"hidden": 17}, "size mismatch"),
        ({"slope_hidden": [8]}, "Unexpected key"),
        ({"kernel": "wide"}, "kernel"),
        ({"colour": 3}, "colour"),
        ({"heads": 5}, "heads"),
    ],
)
def test_an_altered_description_is_an_input_error(tmp_path, change, place):
    save_diagnosis(small_model(), tmp_path)
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with refuses("model.unreadable", tmp_path, place):
        load_diagnosis(tmp_path)
    for content in ("", "{", "[]", "null"):
        path.write_text(content)
        with pytest.raises(InputError, match="model"):
            load_diagnosis(tmp_path)


def change_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["network.heads.quadrant_head.weight", "geometry_middle"])
def test_values_that_are_no_numbers_are_refused_by_name(tmp_path, name):
    save_diagnosis(small_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    state[name].view(-1)[0] = torch.nan
    save_file(state, path)
    with refuses("weights.not_a_number", path, name):
        load_diagnosis(tmp_path)


def test_weights_are_those_of_the_manifest_beside_them(tmp_path):
    save_diagnosis(small_model(), tmp_path)
    path = tmp_path / "model.safetensors"
    write_json(tmp_path / "manifest.json", {"files": {path.name: {"sha256": sha256_file(path)}}})
    load_diagnosis(tmp_path)
    change_a_bit(path)
    with refuses("package.changed_file", path):
        load_diagnosis(tmp_path)


def test_the_weights_of_a_package_are_looked_at_as_well(tmp_path):
    shutil.copytree(pretrained.PACKAGE, tmp_path / "package")
    load_network(tmp_path / "package")
    change_a_bit(tmp_path / "package" / "weights.safetensors")
    with refuses("package.changed_file", "weights.safetensors"):
        load_network(tmp_path / "package")
