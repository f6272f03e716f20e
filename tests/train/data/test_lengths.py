import pytest

from plumbline.core.errors import InputError
from plumbline.prepare.features.shards import save_shards
from tests.train.fit.test_trainer import run, said, work
from tests.train.made import make_sequences

__all__ = ["said", "work"]


@pytest.mark.parametrize("split", ["train", "tune", "calibrate"])
def test_data_prepared_with_more_points_than_the_params_say_are_refused(split, work):
    """The model would answer `predict` about so few points of a building as it was never trained on."""
    save_shards([make_sequences(60, shortest=30, longest=30)], work / "data" / "prepare" / split)
    with pytest.raises(
        InputError,
        match=rf"^prepare\.max_points: 24 found, but data/prepare/{split} has buildings of up to 30 .* prepare` again",
    ):
        run()


@pytest.mark.parametrize(
    ("model", "warned"),
    [({"max_attention_length": 4}, True), ({"max_attention_length": 5}, False),
     ({"max_attention_length": 4, "attention": "none"}, False)],
    ids=["below", "shortest", "none"],
)  # fmt: skip
def test_attention_that_no_building_gets_is_told_of(model, warned, work, said):
    run(model=model, epochs=1)
    told = [line for line in said if "max_attention_length" in line]
    assert told == warned * [
        "WARNING model.max_attention_length: 4 found, and the shortest building of data/prepare/train has 5 "
        "scatterers: attention is neither trained nor used. Raise it, or set model.attention_layers to 0."
    ]
