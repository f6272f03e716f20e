import numpy as np
import pytest
from hypothesis import strategies as st

from plumbline.train.data.batches import BuildingSet, SimilarLengths, loader
from tests.train.made import make_sequences

lengths = st.lists(st.integers(1, 200), min_size=1, max_size=300).map(np.array)


def order(seed, epoch):
    sampler = SimilarLengths(np.arange(500) % 37, 16, seed)
    sampler.set_epoch(epoch)
    return [batch.tolist() for batch in sampler]


def test_seed_and_epoch_alone_decide_the_order():
    assert order(1, 3) == order(1, 3)
    assert order(1, 3) != order(1, 4)
    assert order(1, 3) != order(2, 3)
    assert order(None, 0) == order(None, 7)


def test_a_batch_holds_similar_lengths():
    length = np.random.default_rng(0).integers(5, 129, 4000)
    sampler = SimilarLengths(length, 64, seed=0)
    similar = np.mean([np.ptp(length[batch]) for batch in sampler])
    mixed = np.mean([np.ptp(part) for part in np.array_split(length, len(sampler))])
    assert similar < 0.15 * mixed
    first = [length[batch].mean() for batch in sampler]
    assert np.abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 0.4  # short ones do not come first


@pytest.mark.parametrize("seed", [None, 3])
def test_the_loader_gives_the_buildings_with_their_labels(seed):
    sequences = make_sequences(50)
    seen = []
    for batch in loader(sequences, 16, seed):
        assert batch.distance_BLF.shape[:2] == batch.slope_BLF.shape[:2] == batch.mask_BL.shape
        assert batch.mask_BL.sum(1).max() == batch.mask_BL.shape[1]
        for row, severity in enumerate(batch.severity_B.numpy()):
            building = int(np.flatnonzero(sequences.severity == severity)[0])
            seen.append(building)
            own = slice(sequences.offsets[building], sequences.offsets[building + 1])
            valid = batch.mask_BL[row]
            np.testing.assert_array_equal(batch.distance_BLF[row, valid], sequences.distance[own])
            np.testing.assert_array_equal(batch.slope_BLF[row, valid], sequences.slope[own])
            np.testing.assert_array_equal(batch.geometry_BF[row], sequences.geometry[building])
            assert batch.quadrant_B[row] == sequences.quadrant[building]
            np.testing.assert_array_equal(batch.accepted_B4[row], sequences.accepted[building])
            assert batch.mechanism_B[row] == sequences.mechanism[building]
    assert sorted(seen) == list(range(50))


def test_arrays_mapped_from_disk_are_read_but_never_written(tmp_path):
    sequences = make_sequences(5)
    sequences.save(tmp_path)
    batch = BuildingSet(type(sequences).load(tmp_path))[np.arange(5)]
    for tensor in batch:
        tensor.zero_()
    np.testing.assert_array_equal(type(sequences).load(tmp_path).severity, sequences.severity)
