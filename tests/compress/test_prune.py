"""What pruning takes away, and what it must leave alone."""

import numpy as np
import pytest
import torch

from plumbline.compress.prune import channel_groups, channel_shares, kind_of, prune, slopes
from plumbline.core.files import read_json
from plumbline.model.diagnosis import Answer, Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.losses import build_losses
from plumbline.model.network import count_parameters, spec_of
from plumbline.model.spec import new_spec
from plumbline.params import Compress, Model
from plumbline.params.compress import Powers
from plumbline.prepare.features.sequences import Sequences
from plumbline.train.data.batches import loader
from plumbline.train.data.splits import fit_statistics
from tests.tiny import Tiny

LONGEST = 40
VARIANTS = [
    {"attention": "sdpa", "attention_layers": 2, "blocks": 2},
    {"attention": "ragged", "position": "learned"},
    {"attention": "sdpa", "position": "none", "kernel": 5},
    {"attention": "none"},
]


def network(data: Sequences, **settings: object) -> Diagnosis:
    torch.manual_seed(1)
    model = {"channels": 16, "blocks": 1, "heads": 2, "attention_layers": 1, "hidden": 24, **settings}
    diagnosis = Diagnosis(new_spec(Model.model_validate(model), LONGEST))
    fit_statistics(diagnosis, data)
    return diagnosis.eval()


def pruned(tiny: Tiny, model: Diagnosis, data: Sequences, ratio: float, importance: str = "taylor") -> Diagnosis:
    return prune(
        model, every(model, ratio), slopes(model, data, tiny.params.train, batches=1, seed=0), importance=importance
    )


def every(model: Diagnosis, share: float) -> dict[str, float]:
    """The same share of every group of channels."""
    return dict.fromkeys(channel_groups(model), share)


def answers(model: Diagnosis, data: Sequences) -> Answer:
    inputs = data.pad(np.flatnonzero(data.length <= LONGEST)[:20])
    tensors = [torch.from_numpy(np.array(inputs[name])) for name in ("distance", "slope", "geometry", "mask")]
    with torch.inference_mode():
        return model(*tensors)


def widths(model: Diagnosis) -> list[int]:
    spec = spec_of(model.network)
    layers = [width for layer in spec.attention_layers for width in (layer.inner, layer.feedforward)]
    # The two streams share the channels of what joins them, so only their sum is fixed.
    joined = spec.distance_channels + spec.slope_channels
    return [joined, *spec.distance_hidden, *spec.slope_hidden, *layers, spec.geometry_width, spec.hidden]


@pytest.mark.parametrize("settings", VARIANTS, ids=str)
def test_half_of_the_channels_are_really_gone_and_all_else_stays(tiny, data, settings, tmp_path):
    whole = network(data, **settings)
    weights, said = {name: value.clone() for name, value in whole.state_dict().items()}, answers(whole, data)
    half = pruned(tiny, whole, data, 0.5)
    assert widths(half) == [width // 2 for width in widths(whole)]
    # A matrix between two halved layers has a quarter of its weights left; those at the ends have half.
    before, after = count_parameters(whole.network)["total"], count_parameters(half.network)["total"]
    assert after < 0.45 * before
    assert sum(value.numel() for value in half.network.state_dict().values()) == pytest.approx(after, rel=0.05)
    for name, value in whole.named_buffers():
        assert name.startswith("network.") or torch.equal(value, half.get_buffer(name)), name

    save_diagnosis(half, tmp_path)
    again = load_diagnosis(tmp_path)
    for left, right in zip(answers(half, data), answers(again, data), strict=True):
        assert torch.isfinite(left).all()
        assert torch.equal(left, right)
    assert read_json(tmp_path / "model.json") == spec_of(half.network).model_dump()
    assert widths(again) == widths(half)

    # The original is as it was.
    assert weights.keys() == whole.state_dict().keys()
    assert all(torch.equal(weights[name], value) for name, value in whole.state_dict().items())
    fresh = dict(network(data, **settings).named_parameters())
    for name, parameter in whole.named_parameters():
        assert parameter.grad is None
        assert parameter.requires_grad == fresh[name].requires_grad
    assert all(torch.equal(left, right) for left, right in zip(said, answers(whole, data), strict=True))


@pytest.mark.parametrize("importance", ["taylor", "magnitude"])
def test_channels_that_do_nothing_go_first(tiny, data, importance):
    whole = network(data)
    block = whole.network.encoder.distance.blocks[0]
    dead = torch.tensor([0, 3, 4, 7, 8, 9, 12, 15])
    with torch.no_grad():
        # The bias is the channel's name here: 1 to 16, or 0 for a channel that nothing comes out of.
        block.first.bias.copy_(torch.arange(1, 17) / 16)
        block.first.bias[dead] = 0
        block.first.weight[dead] = 0
        block.second.weight[:, dead] = 0
    kept = pruned(tiny, whole, data, 0.5, importance).network.encoder.distance.blocks[0].first.bias
    assert len(kept) == 8
    assert (kept > 0).all()


@pytest.mark.parametrize("settings", VARIANTS[::3], ids=str)
def test_one_group_alone_is_pruned_where_it_is_named(tiny, data, settings):
    whole = network(data, **settings)
    groups = channel_groups(whole)
    found = slopes(whole, data, tiny.params.train, 1, 0)
    narrowed = [widths(prune(whole, {group: 0.5}, found)) for group in groups]
    changed = [
        [number for number, pair in enumerate(zip(widths(whole), one, strict=True)) if pair[0] != pair[1]]
        for one in narrowed
    ]
    assert all(len(places) == 1 for places in changed)
    # Without attention the two streams share no channels: two groups for one width.
    assert {place for (place,) in changed} == set(range(len(widths(whole))))
    for one, (place,) in zip(narrowed, changed, strict=True):
        width = widths(whole)[place]
        assert one[place] in ((width // 2, 3 * width // 4) if settings["attention"] == "none" else (width // 2,))


def test_whole_heads_go_and_the_network_knows_how_many_are_left(tiny, data, tmp_path):
    whole = network(data, heads=4, attention_layers=2)
    found = slopes(whole, data, tiny.params.train, 1, 0)
    one = prune(whole, every(whole, 0.5), found, heads=1)
    assert [layer.attention.heads for layer in one.network.neck.layers] == [1, 1]
    # 32 channels in 4 heads: of each head half stays, and of the heads one.
    assert [layer.inner for layer in spec_of(one.network).attention_layers] == [4, 4]
    save_diagnosis(one, tmp_path)
    again = load_diagnosis(tmp_path)
    assert all(torch.equal(left, right) for left, right in zip(answers(one, data), answers(again, data), strict=True))
    halves = every(whole, 0.5)
    assert spec_of(prune(whole, halves, found, heads=9).network) == spec_of(prune(whole, halves, found).network)


@pytest.mark.parametrize("settings", [{"heads": 4}, {"heads": 32}], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.99])
def test_whole_heads_go_whether_channels_of_them_do_or_not(tiny, data, settings, share):
    """With none to take, or with heads of one channel."""
    whole = network(data, **settings)
    groups = [name for name in channel_groups(whole) if ".attention.value" in name]
    one = prune(whole, dict.fromkeys(groups, share), slopes(whole, data, tiny.params.train, 1, 0), heads=3)
    assert {layer.attention.heads for layer in one.network.neck.layers} == {3}
    width = 32 // settings["heads"]
    left = max(1, int(width * (1 - share)))
    assert {layer.inner for layer in spec_of(one.network).attention_layers} == {3 * left}
    assert all(torch.isfinite(part).all() for part in answers(one, data))


@pytest.mark.parametrize("settings", VARIANTS[::3], ids=str)
def test_of_every_group_something_stays_and_no_more_than_that(tiny, data, settings):
    """A ratio that leaves less than one channel must not leave them all."""
    whole = network(data, **settings)
    least = prune(whole, every(whole, 0.999), slopes(whole, data, tiny.params.train, 1, 0), multiple=8)
    spec = spec_of(least.network)
    assert (spec.distance_channels, spec.slope_channels) == (1, 1)
    heads = [whole.network.spec.heads] * len(spec.attention_layers)
    assert [layer.inner for layer in spec.attention_layers] == heads
    assert set(widths(least)[1:]) <= {1, *heads}
    assert all(torch.isfinite(part).all() for part in answers(least, data))


def test_each_stream_keeps_a_multiple_of_the_shared_channels(tiny, data):
    whole = network(data, **VARIANTS[1])
    found = slopes(whole, data, tiny.params.train, 1, 0)
    for share, left in ((0.25, 24), (0.5, 16)):
        spec = spec_of(prune(whole, every(whole, share), found, multiple=4).network)
        assert spec.distance_channels + spec.slope_channels == left
        assert spec.distance_channels % 4 == spec.slope_channels % 4 == 0
        assert min(spec.distance_channels, spec.slope_channels) > 0


def test_a_stream_that_matters_little_is_not_emptied(tiny, data):
    """Else nothing at all would go: torch_pruning leaves a group alone in which a layer would lose every channel."""
    whole = network(data)
    found = slopes(whole, data, tiny.params.train, 1, 0)
    for name, slope in found.items():
        if "distance" in name:
            slope.zero_()
    spec = spec_of(prune(whole, every(whole, 0.5), found).network)
    assert spec.distance_channels + spec.slope_channels == 16
    assert spec.distance_channels >= 1
    for multiple, share, kept in ((4, 0.5, (4, 12)), (8, 0.5, (8, 8)), (8, 0.75, (1, 7))):
        spec = spec_of(prune(whole, every(whole, share), found, multiple=multiple).network)
        assert (spec.distance_channels, spec.slope_channels) == kept


def test_slopes_are_those_of_the_losses(tiny, data):
    """By a difference: a step along one bias changes the summed loss by its slope times the step."""
    whole = network(data).double()
    bias = whole.network.heads.severity_head.bias

    def loss():
        chosen = build_losses(tiny.params.train)
        (batch,) = (batch for number, batch in enumerate(loader(data, 128, 0)) if number == 0)
        inputs = (batch.distance_BLF.double(), batch.slope_BLF.double(), batch.geometry_BF.double(), batch.mask_BL)
        with torch.no_grad():
            answer = whole.raw(*inputs)
            standard = whole.standard_severity(batch.severity_B.double())
            return chosen.over_damaged(answer, batch) + chosen.over_all(answer, batch, standard)

    slope = slopes(network(data), data, tiny.params.train, 1, 0)["network.heads.severity_head.bias"][0]
    before = loss()
    with torch.no_grad():
        bias[0] += 1e-4
    assert float((loss() - before) / 1e-4) == pytest.approx(float(slope), rel=0.02)


DEEP = {"blocks": 2, "attention_layers": 2}


def section(**settings: object) -> Compress:
    needed = {"pruning_ratio": 0.5, "epochs": 1, "patience": 1, "learning_rate": 0.1}
    return Compress.model_validate({**needed, **settings})


@pytest.mark.parametrize("settings", [{}, {"attention": "none"}, {"convolution": "separable"}, {"position": "none"}])
def test_every_kind_has_a_power_and_every_power_a_kind(data, settings):
    kinds = {kind_of(group) for group in channel_groups(network(data, **DEEP, **settings))}
    unused = {"attention", "feedforward"} if settings == {"attention": "none"} else set()
    assert kinds == set(Powers.model_fields) - unused


@pytest.mark.parametrize("kind", Powers.model_fields)
def test_a_power_acts_on_its_kind_alone(data, kind):
    model = network(data, **DEEP)
    found = channel_shares(model, section(powers={kind: 2.0}))
    assert {group: share for group, share in found.items() if share != pytest.approx(0.5)} == {
        group: pytest.approx(0.75) for group in channel_groups(model) if kind_of(group) == kind
    }


def test_widths_are_rounded_to_multiples_and_never_to_nothing(data):
    model = network(data, **DEEP)
    found = channel_shares(model, section(pruning_ratio=0.45, multiple=8))
    left = {group: 1 - share for group, share in found.items()}
    kinds = {kind_of(group): share for group, share in left.items()}
    # 32 shared * 0.55 = 17.6, 16 between convolutions: 8.8, 64 behind attention: 35.2, 24 of a building: 13.2
    assert kinds["shared"] == pytest.approx(16 / 32)
    assert kinds["convolution"] == pytest.approx(8 / 16)
    assert kinds["feedforward"] == pytest.approx(32 / 64)
    assert kinds["joined"] == pytest.approx(16 / 24)
    assert kinds["attention"] == pytest.approx(0.55)
    smallest = channel_shares(model, section(pruning_ratio=0.99, multiple=8))
    assert 1 - smallest["geometry.0"] == pytest.approx(8 / 24)
    assert 1 - channel_shares(model, section(pruning_ratio=0.1, multiple=64))["geometry.0"] == pytest.approx(1)


def test_a_ratio_of_zero_takes_nothing(data):
    nothing = section(pruning_ratio=0.0, powers={"shared": 3.0}, multiple=8)
    assert set(channel_shares(network(data, **DEEP), nothing).values()) == {0.0}
