"""The scan of what pruning each group of channels alone costs."""

from plumbline.compress import sensitivity
from plumbline.compress.prune import slopes
from plumbline.compress.sensitivity import draw, scan
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters
from plumbline.prepare.features.shards import load_shards


def test_the_scan_has_every_group_alone(tiny, data, monkeypatch):
    monkeypatch.setattr(sensitivity, "RATIOS", (0.25, 0.75))
    model = load_diagnosis(tiny.data("train"))
    found = slopes(model, data, tiny.params.train, batches=1, seed=0)
    tune = load_shards(tiny.data("prepare") / "tune")
    rows = scan(model, found, "taylor", tune.take(range(10)))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    assert [row["ratio"] for row in rows] == [0.0, 0.25, 0.75] * len(groups)
    whole = count_parameters(model.network)["total"]
    for group in groups:
        sizes = [row["parameters"] for row in rows if row["group"] == group]
        assert sizes[0] == whole
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < whole
    svg = draw(rows)
    assert svg.startswith("<svg")
    assert svg.count("<polyline") == len(groups)
    assert all(group in svg for group in groups)
