"""Files of adapters: combined as peft combines them, and what is no adapter is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import PeftModel
from safetensors.numpy import load_file, save_file

from plumbline.core.files import read_json, write_json
from plumbline.fields.model.adapter_files import CONFIG, WEIGHTS, adapted_weights, parse_adapters
from plumbline.fields.model.adapters import add_adapter, save_adapter
from tests.fields.model.made import change_module, make_denoiser, make_inputs
from tests.refusals import refuses


def write_drawn(folder, name, seed, alpha=2.0, unfrozen=()):
    """An adapter whose weights are all drawn."""
    model = make_denoiser()
    add_adapter(model, name, 4, alpha, unfrozen)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    save_adapter(model, name, folder)
    return folder / name


def weights_of(model):
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(
    ("adapters", "unfrozen"),
    [
        ({"noise": 1.0}, ["conv_in", "conv_out"]),
        ({"noise": 1.0}, ["down_blocks"]),
        ({"noise": 1.0}, ["up_blocks.0.resnets", "conv_out"]),  # of which convolutions else get a low-rank change
        ({"noise": 0.7, "sparse": 0.3}, []),
        ({"noise": 1.0, "sparse": 2}, []),
    ],
    ids=["modules", "list", "within", "combined", "doubled"],
)
def test_adapters_act_as_in_peft_alone_and_combined(tmp_path, adapters, unfrozen):
    for seed, name in enumerate(adapters):
        write_drawn(tmp_path, name, seed, alpha=2.0 + seed, unfrozen=unfrozen)
    theirs, ours = make_denoiser(), make_denoiser()
    given_inputs = make_inputs(theirs, 2, 16, 8)
    first, *others = adapters
    loaded = PeftModel.from_pretrained(theirs.unet, tmp_path / first, adapter_name=first)
    for name in others:
        loaded.load_adapter(tmp_path / name, name)
    if others:
        loaded.add_weighted_adapter([*adapters], [*adapters.values()], "combined", combination_type="cat")
        loaded.set_adapter("combined")
    theirs.unet = loaded
    weighted = [(tmp_path / name, weight) for name, weight in adapters.items()]
    with torch.no_grad():
        before, expected = ours(*given_inputs), theirs(*given_inputs)
        change_module(ours, adapted_weights(weights_of(ours), weighted))
        assert (before - expected).abs().max() > 0.01
        torch.testing.assert_close(ours(*given_inputs), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("unfrozen", "key", "places"),
    [
        (["conv_in", "decoder"], "adapter.unknown_module", ["'decoder'", "conv_in, time_embedding, "]),
        (["conv_act"], "adapter.unknown_module", ["'conv_act'"]),  # without a weight
        (["mid_block", "up_blocks"], "adapter.all_unfrozen", ["mid_block, up_blocks"]),
    ],
)
def test_modules_that_cannot_be_unfrozen_are_refused(unfrozen, key, places):
    with refuses(key, "adapt.unfreeze: ", *places):
        add_adapter(make_denoiser(), "noise", 4, 2.0, unfrozen)


def test_unfrozen_weights_are_combined_by_their_differences(tmp_path):
    base = weights_of(make_denoiser())
    one, other = (
        write_drawn(tmp_path, name, seed, unfrozen=["conv_out"]) for seed, name in enumerate(("noise", "sparse"))
    )
    name = "unet.conv_out.bias"
    difference = [load_file(folder / WEIGHTS)["base_model.model.conv_out.bias"] - base[name] for folder in (one, other)]
    found = adapted_weights(base, [(one, 0.5), (other, 0.25)])[name]
    np.testing.assert_allclose(found, base[name] + 0.5 * difference[0] + 0.25 * difference[1], atol=1e-6)
    assert adapted_weights(base, []) == {}


def test_an_adapter_is_the_same_bytes_each_time(tmp_path):
    one, other = (write_drawn(tmp_path / part, "noise", 0, unfrozen=["conv_out"]) for part in "ab")
    assert sorted(path.name for path in one.iterdir()) == [CONFIG, WEIGHTS]
    assert [path.name for path in one.parent.iterdir()] == ["noise"]
    for name in (CONFIG, WEIGHTS):
        assert (one / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.parametrize("fault", ["no scaling", "a factor is missing", "another shape", "cut", "unknown"])
def test_what_is_no_adapter_of_the_network_is_refused(tmp_path, fault):
    base, folder = weights_of(make_denoiser()), write_drawn(tmp_path, "noise", 0)
    path, stored = folder / WEIGHTS, load_file(folder / WEIGHTS)
    factor = next(name for name in stored if name.endswith("lora_B.weight"))
    if fault == "no scaling":
        write_json(folder / CONFIG, read_json(folder / CONFIG) | {"lora_alpha": "much"})
    elif fault == "a factor is missing":
        save_file({name: values for name, values in stored.items() if name != factor}, path)
    elif fault == "another shape":
        save_file(stored | {factor: stored[factor][:-1]}, path)
    elif fault == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    else:
        save_file(stored | {"base_model.model.conv_in.colour": np.zeros(3, np.float32)}, path)
    with refuses("adapter.unreadable", folder):
        adapted_weights(base, [(folder, 1.0)])


@given(st.lists(st.tuples(st.text("abcxyz", min_size=1, max_size=9), st.floats(0, 2)), unique_by=lambda item: item[0]))
def test_names_and_weights_are_read_as_they_are_written(asked):
    assert parse_adapters([f"{name}={weight!r}" for name, weight in asked]) == asked
    assert parse_adapters([name for name, _ in asked]) == [(name, 1.0) for name, _ in asked]


@pytest.mark.parametrize(
    "text", ["noise=", "noise=a", "noise=-0.1", "noise=2.1", "noise=nan", "noise=1=1", "noise=inf"]
)
def test_other_weights_are_refused(text):
    with refuses("adapter.weight_out_of_range", f"--adapter {text}:", "0 to 2"):
        parse_adapters([text])


def test_an_adapter_is_given_once():
    with refuses("adapter.given_twice", "--adapter noise:"):
        parse_adapters(["noise", "sparse", "noise=0.3"])
