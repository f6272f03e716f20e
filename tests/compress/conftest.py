"""What the tests of compression share."""

import pytest

from plumbline.prepare.features.shards import Shards, load_shards


@pytest.fixture
def data(tiny) -> Shards:
    """Training buildings of the tiny run."""
    return load_shards(tiny.data("prepare") / "train")
