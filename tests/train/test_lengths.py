import pytest

from plumbline.errors import InputError
from plumbline.prepare.shards import save_shards
from tests.train.made import make_sequences
from tests.train.test_fit import run, work

__all__ = ["work"]


@pytest.mark.parametrize("split", ["train", "tune", "calibrate"])
def test_data_prepared_with_more_points_than_the_params_say_are_refused(split, work):
    """The model would answer `predict` about so few points of a building as it was never trained on."""
    save_shards([make_sequences(60, shortest=30, longest=30)], work / "data" / "prepare" / split)
    with pytest.raises(
        InputError,
        match=rf"^prepare\.max_points: 24 found, but data/prepare/{split} has buildings of up to 30 .* prepare` again",
    ):
        run()
