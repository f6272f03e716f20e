import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from plumbline.errors import InputError
from plumbline.model.diagnosis import (
    SEVERITY_FLOOR,
    YEARS,
    Answer,
    asinh,
    asinh_written_out,
    load_diagnosis,
    save_diagnosis,
)
from plumbline.model.interval import (
    LEAST_WIDTH,
    POINT_BOUNDS,
    STEPS,
    deviation,
    halves,
    narrowness,
    passed_bounds,
    stretched,
)
from plumbline.prepare.features import GEOMETRY, names
from tests.model.made import inputs, small_model


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
    assert [tuple(part.shape) for part in answer] == [(3, 4), (3,), (3,), (3,), (3,)]
    torch.testing.assert_close(answer.quadrant_probability.sum(-1), torch.ones(3))


def test_temperature_divides_the_logits():
    model, batch = small_model(), inputs([4, 9])
    with torch.inference_mode():
        logits = model.raw(*batch).logits_B4
        model.get_buffer("temperature").fill_(2.5)
        torch.testing.assert_close(model(*batch).quadrant_probability, (logits / 2.5).softmax(-1))


def test_the_interval_is_that_of_the_network_scaled_and_lengthened():
    model, batch = small_model(), inputs([4, 9])
    with torch.inference_mode():
        model.get_buffer("interval_scale").fill_(1.5)
        model.get_buffer("interval_steps").zero_()
        model.get_buffer("interval_length").zero_()
        model.get_buffer("interval_stretch").fill_(0.7)
        low, middle, high = model.raw(*batch).severity_B3.T
        answer = model(*batch)
        torch.testing.assert_close(answer.severity_low, model.permille(middle - 1.5 * (middle - low) - 0.7))
        torch.testing.assert_close(answer.severity_permille, model.permille(middle))
        torch.testing.assert_close(answer.severity_high, model.permille(middle + 1.5 * (high - middle) + 0.7))


def test_kinds_of_buildings_have_intervals_of_their_own():
    model, batch = small_model(), inputs([4, 4, 4])
    columns = names(GEOMETRY)
    batch[2][:] = batch[2][0]
    batch[2][:, columns.index("log_points")] = torch.tensor([9.0, 10.0, 10.0]).log()
    batch[2][:, columns.index("log_area")] = torch.tensor([99.0, 99.0, 101.0]).log()
    torch.testing.assert_close(
        passed_bounds(batch[2]), torch.tensor([[0.0] * 6, [1.0] + [0.0] * 5, [1.0, 0, 0, 1.0, 0, 0]])
    )
    with torch.inference_mode():
        model.get_buffer("interval_stretch").zero_()
        model.get_buffer("interval_scale").fill_(1.0)
        model.get_buffer("interval_length").zero_()
        model.get_buffer("interval_steps").copy_(torch.tensor([0.5, 0, 0, -1.0, 0, 0]))
        low, middle, _ = model.raw(*batch).severity_B3.T
        halves = torch.tensor([1.0, 1.5, 0.5])
        torch.testing.assert_close(model(*batch).severity_low, model.permille(middle - halves * (middle - low)))


@pytest.mark.parametrize("bound", POINT_BOUNDS)
def test_a_bound_of_points_is_reached_by_as_many(bound):
    geometry = torch.zeros(2, len(GEOMETRY))
    geometry[:, names(GEOMETRY).index("log_points")] = torch.tensor([bound - 1.0, bound]).log()
    passed = passed_bounds(geometry)[:, POINT_BOUNDS.index(bound)]
    assert passed.tolist() == [0, 1]


@given(st.integers(0, 1000), st.lists(st.floats(0, 3), min_size=5, max_size=5))
def test_a_severity_is_inside_where_its_deviation_is_within_the_scale_of_its_category(seed, scales):
    generator = torch.Generator().manual_seed(seed)
    middle, halves = torch.randn(40, 1, generator=generator), torch.rand(40, 2, generator=generator) + 0.2
    severity = torch.cat([middle - halves[:, :1], middle, middle + halves[:, 1:]], dim=1)
    truth, edges = 2 * torch.randn(40, generator=generator), torch.tensor([-0.5, 0.0, 0.5, 1.0])
    scale = torch.tensor(scales)[torch.bucketize(truth, edges, right=True)]
    low, high = stretched(severity, torch.tensor(scales).expand(40, 5), torch.zeros(5), edges)
    within = deviation(severity, truth) <= scale - 1e-4
    assert (low[within, 0] <= truth[within]).all()
    assert (truth[within] <= high[within, 0]).all()


@given(st.floats(0.01, 3), st.floats(0.01, 3), st.floats(0, 2), st.floats(0, 3))
def test_a_length_is_shared_between_the_sides_as_the_halves_are(below, above, scale, length):
    """Where the network's interval is at least `LEAST_WIDTH` long, it is `scale` times as long and `length` longer."""
    model, severity = small_model(), torch.tensor([[-below, 0.0, above]])
    for name, value in (("scale", scale), ("length", length)):
        model.get_buffer(f"interval_{name}").fill_(value)
    by_category = model.interval_scale_of(torch.zeros(1, STEPS), narrowness(severity))
    low, high = stretched(severity, by_category, torch.zeros(5), torch.tensor([-0.5, 0.0, 0.5, 1.0]))
    width = below + above
    assert (high - low).item() == pytest.approx(scale * width + length * min(1, width / LEAST_WIDTH), rel=1e-4)
    torch.testing.assert_close(-low * above, high * below, rtol=1e-4, atol=1e-6)


@given(st.integers(0, 1000), st.floats(1.01, 4))
def test_a_network_that_is_less_sure_has_an_interval_that_is_no_shorter(seed, times):
    generator = torch.Generator().manual_seed(seed)
    model, half = small_model(), torch.rand(30, 1, generator=generator) * 2
    severity = torch.cat([-half, torch.zeros(30, 1), half], dim=1)
    model.get_buffer("interval_length").abs_()
    edges = torch.tensor([-0.5, 0.0, 0.5, 1.0])

    def length(severity):
        given_BC = model.interval_scale_of(torch.zeros(30, STEPS), narrowness(severity))
        low, high = stretched(severity, given_BC, torch.zeros(5), edges)
        return high - low

    assert (length(times * severity) >= length(severity) - 1e-5).all()


def test_narrowness_is_one_over_the_length_of_the_interval_down_to_the_least():
    severity = torch.tensor([[-1.0, 0.0, 3.0], [0.0, 0.1, 0.2], [2.0, 1.0, 0.0]])
    assert narrowness(severity)[:, 0].tolist() == pytest.approx([1 / 4, 1 / LEAST_WIDTH, 1 / LEAST_WIDTH])
    assert torch.stack(halves(severity)).min() > 0


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


def test_a_model_saved_before_short_times_were_strange_knows_none(tmp_path):
    save_diagnosis(small_model(), tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    del state["least_years"]
    save_file(state, tmp_path / "model.safetensors")
    assert load_diagnosis(tmp_path).get_buffer("least_years").item() == 0


def test_standardising_is_linear_near_zero_and_bounded_far_out():
    model = small_model()
    model.get_buffer("slope_mean").fill_(2.0)
    model.get_buffer("slope_sd").fill_(4.0)
    near, far = model.standardise("slope", torch.tensor([2.004, 2 + 4e9]).unsqueeze(-1))
    assert near[0].item() == pytest.approx(0.001, rel=1e-3)
    assert 20 < far[0].item() < 25


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
    with pytest.raises(InputError, match="not a readable model"):
        load_diagnosis(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 17}, "size mismatch"),
        ({"slope_hidden": [8]}, "Unexpected key"),
        ({"kernel": "wide"}, "kernel"),
        ({"colour": 3}, "colour"),
        ({"hidden": None}, "hidden"),
        ({"attention": "magic"}, "attention"),
        ({"position": "magic"}, "position"),
        ({"heads": 5}, "heads"),
        ({"heads": 0}, "heads"),
    ],
)
def test_an_altered_description_is_an_input_error(tmp_path, change, message):
    save_diagnosis(small_model(), tmp_path)
    path = tmp_path / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=message):
        load_diagnosis(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_description_that_is_none_is_an_input_error(tmp_path, content):
    save_diagnosis(small_model(), tmp_path)
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(InputError, match=r"model|JSON"):
        load_diagnosis(tmp_path)


def test_the_outputs_keep_their_names():
    assert Answer._fields == ("quadrant_probability", "severity_permille", "severity_low", "severity_high", "novelty")
