"""Files of adapters: what is written is added, and what is no adapter is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from plumbline.core.errors import InputError
from plumbline.fields.model.adapter_files import combined, parse_adapters, weight_changes, write_adapter


def parts(rng):
    return {
        "a.weight.lora_A": rng.normal(size=(4, 6, 3, 3)),
        "a.weight.lora_B": rng.normal(size=(5, 4, 1, 1)),
        "b.weight.lora_A": rng.normal(size=(4, 6)),
        "b.weight.lora_B": rng.normal(size=(5, 4)),
        "c.bias.added": rng.normal(size=7),
    }


def test_factors_are_multiplied_and_changes_kept(tmp_path):
    given_parts, path = parts(np.random.default_rng(0)), tmp_path / "noise.safetensors"
    write_adapter(given_parts, 0.5, path)
    half = {name: values.astype(np.float16).astype(np.float32) for name, values in given_parts.items()}
    found = weight_changes(path)
    assert set(found) == {"a.weight", "b.weight", "c.bias"}
    product = np.einsum("or,rikl->oikl", half["a.weight.lora_B"][:, :, 0, 0], half["a.weight.lora_A"])
    np.testing.assert_allclose(found["a.weight"], 0.5 * product, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        found["b.weight"], 0.5 * half["b.weight.lora_B"] @ half["b.weight.lora_A"], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(found["c.bias"], half["c.bias.added"])


def test_files_that_are_no_adapters_are_refused(tmp_path):
    path, rng = tmp_path / "noise.safetensors", np.random.default_rng(0)
    with pytest.raises(InputError, match="not readable as an adapter"):
        weight_changes(path)
    whole = {name: values.astype(np.float16) for name, values in parts(rng).items()}
    for content, about in (
        (whole, None),
        (whole, {"scaling": "much"}),
        (whole, {"scaling": "[1]"}),
        ({name: values for name, values in whole.items() if name != "a.weight.lora_B"}, {"scaling": "1"}),
        (whole | {"b.weight.lora_B": np.zeros((5, 3), np.float16)}, {"scaling": "1"}),
    ):
        save_file(content, path, about)
        with pytest.raises(InputError, match=r"noise\.safetensors: not readable as an adapter"):
            weight_changes(path)
    write_adapter(parts(rng), 1.0, path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="not readable as an adapter"):
        weight_changes(path)


def test_adapters_are_added_by_their_weights():
    one, other = {"a": np.ones(3, np.float32)}, {"a": np.full(3, 2, np.float32), "b": np.ones(2, np.float32)}
    found = combined([(one, 0.5), (other, 0.25)])
    np.testing.assert_array_equal(found["a"], np.ones(3))
    np.testing.assert_array_equal(found["b"], np.full(2, 0.25))
    assert one["a"].sum() == 3  # what was given stays as it was
    assert combined([]) == {}


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.floats(0, 2)), unique_by=lambda item: item[0])
)
def test_names_and_weights_are_read_as_they_are_written(asked):
    assert parse_adapters([f"{name}={weight!r}" for name, weight in asked]) == asked
    assert parse_adapters([name for name, _ in asked]) == [(name, 1.0) for name, _ in asked]


@pytest.mark.parametrize(
    "text", ["noise=", "noise=a", "noise=-0.1", "noise=2.1", "noise=nan", "noise=1=1", "noise=inf"]
)
def test_other_weights_are_refused(text):
    with pytest.raises(InputError, match=f"--adapter {text}: a weight from 0 to 2"):
        parse_adapters([text])


def test_an_adapter_is_given_once():
    with pytest.raises(InputError, match="noise: given twice"):
        parse_adapters(["noise", "sparse", "noise=0.3"])
