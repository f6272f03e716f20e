"""The diffusion against that of diffusers, the network against itself, a fresh adapter."""

import itertools

import numpy as np
import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler

from plumbline.core.files import read_json, write_json
from plumbline.fields.model.adapters import add_adapter, unfrozen_parameters
from plumbline.fields.model.denoiser import load_denoiser, save_denoiser
from plumbline.fields.model.sampling import alphas_cumulative, draws, inference_steps, restore_steps
from tests.fields.model.made import make_denoiser, make_inputs
from tests.refusals import refuses


@pytest.mark.parametrize("schedule", ["linear", "squaredcos_cap_v2"])
@pytest.mark.parametrize("steps", [10, 1000])
def test_the_noise_is_that_of_diffusers(schedule, steps):
    theirs = DDPMScheduler(num_train_timesteps=steps, beta_schedule=schedule).alphas_cumprod
    np.testing.assert_allclose(alphas_cumulative(schedule, steps), theirs.numpy(), rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("schedule", ["linear", "squaredcos_cap_v2"])
@pytest.mark.parametrize("steps", [1, 4, 25, 50, 1000])
def test_steps_are_those_of_diffusers_one_by_one(schedule, steps):
    theirs = DDIMScheduler(
        beta_schedule=schedule, timestep_spacing="trailing", prediction_type="sample", clip_sample=False
    )
    theirs.set_timesteps(steps)
    np.testing.assert_array_equal(inference_steps(steps, 1000), theirs.timesteps.numpy())
    alphas = theirs.alphas_cumprod.double().numpy()
    noise = np.random.default_rng(0).standard_normal((2, 2, 4, 4)).astype(np.float32)
    field, seen = torch.from_numpy(noise), []

    def denoise(given, step):
        np.testing.assert_allclose(given, field.numpy(), atol=2e-4)
        seen.append(step)
        return np.tanh(given + step / 500)

    ours = denoise
    whole = restore_steps(lambda given, step: ours(given, step), noise, alphas, steps=1, eta=0.0)
    np.testing.assert_allclose(whole, np.tanh(noise + 999 / 500), rtol=1e-5)

    def both(given, step):
        nonlocal field
        clean = denoise(given, step)
        field = theirs.step(torch.from_numpy(clean.astype(np.float32)), step, field).prev_sample
        return clean

    found = restore_steps(both, noise, alphas, steps=steps, eta=0.0)
    np.testing.assert_allclose(found, field.numpy(), atol=2e-4)
    assert seen[1:] == theirs.timesteps.tolist()


@pytest.mark.parametrize("steps", [0, 41])
def test_more_steps_than_there_are_are_refused(steps):
    with refuses("steps.out_of_range", f"--steps {steps}:", "1 to 40"):
        inference_steps(steps, 40)


@pytest.mark.parametrize(("steps", "eta"), itertools.product([1, 3, 7, 40], [0.0, 1.0]))
def test_who_knows_the_truth_gives_the_truth(steps, eta):
    truth = np.random.default_rng(1).normal(size=(3, 2, 8, 8)).astype(np.float32)
    fresh = draws(np.random.default_rng(2), truth.shape)
    alphas = alphas_cumulative("squaredcos_cap_v2", 40)
    found = restore_steps(lambda *_: truth, next(fresh), alphas, steps=steps, eta=eta, fresh=fresh)
    np.testing.assert_allclose(found, truth)


def test_fresh_noise_keeps_the_variance():
    """Who always says the best guess of a standard normal field gives such fields, whatever `eta`."""
    alphas = alphas_cumulative("linear", 1000)
    for eta in (0.0, 1.0):
        fresh = draws(np.random.default_rng(3), (4000, 1, 1, 1))
        left = []

        def denoise(field, step, left=left):
            left.append(field.std())
            return np.sqrt(alphas[step]) * field

        restore_steps(denoise, next(fresh), alphas, steps=200, eta=eta, fresh=fresh)
        np.testing.assert_allclose(left, 1, atol=0.06)


def test_noise_is_added_as_it_is_taken_off():
    model = make_denoiser()
    clean, noise = torch.ones(2, 2, 8, 8), torch.randn(2, 2, 8, 8)
    alphas = alphas_cumulative(model.spec.schedule, 40)
    found = model.noisy(clean, noise, torch.tensor([0, 39]))
    for row, step in enumerate((0, 39)):
        expected = np.sqrt(alphas[step]) * clean[row] + np.sqrt(1 - alphas[step]) * noise[row]
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-5)


def test_a_fresh_network_gives_the_process_and_is_read_as_it_was_written(tmp_path):
    model = make_denoiser()
    save_denoiser(model, tmp_path)
    again = load_denoiser(tmp_path)
    given = make_inputs(model, 3, 8, 12)
    with torch.no_grad():
        torch.testing.assert_close(again(*given), model(*given), rtol=0, atol=0)
        fresh = type(model)(model.spec).eval()
        assert not fresh(*given).any()
    assert again.spec == model.spec
    assert not again.training


def test_damaged_networks_are_refused(tmp_path):
    model = make_denoiser()
    save_denoiser(model, tmp_path)
    spec, weights = read_json(tmp_path / "model.json"), (tmp_path / "model.safetensors").read_bytes()
    for change, key in (
        ({"conditions": ["a", "b"]}, "network.other_conditions"),
        ({"layers": "x"}, "network.unreadable_spec"),
        ({"channels": [8, 24]}, "network.unreadable_weights"),
    ):
        write_json(tmp_path / "model.json", spec | change)
        with refuses(key, tmp_path):
            load_denoiser(tmp_path)
    for field in ("schedule", "train_steps"):
        write_json(tmp_path / "model.json", {key: value for key, value in spec.items() if key != field})
        with refuses("network.unreadable_spec", "model.json", field):
            load_denoiser(tmp_path)
    write_json(tmp_path / "model.json", spec)
    (tmp_path / "model.safetensors").write_bytes(weights[:-20])
    with refuses("network.unreadable_weights", "model.safetensors"):
        load_denoiser(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with refuses("network.unreadable_weights", "model.safetensors"):
        load_denoiser(tmp_path)


def test_a_fresh_adapter_changes_nothing_and_alone_is_trained():
    model = make_denoiser()
    given = make_inputs(model, 2, 8, 8)
    with torch.no_grad():
        before = model(*given)
    add_adapter(model, "noise", 4, 2.0, ["conv_in", "conv_out"])
    with torch.no_grad():
        torch.testing.assert_close(model(*given), before, rtol=0, atol=1e-6)
    late = {id(parameter) for parameter in unfrozen_parameters(model)}
    trained = [
        name for name, parameter in model.named_parameters() if parameter.requires_grad and id(parameter) not in late
    ]
    assert trained
    assert all("lora_" in name and ".noise." in name for name in trained)
    assert len(late) == 4  # weight and bias of both
