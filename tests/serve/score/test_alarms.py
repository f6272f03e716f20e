"""Which alarms begin, go on and end, told by made-up values and by hand-made results of deliveries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.core.files import sha256_file
from plumbline.params import Params, Score, load_params, parse_params
from plumbline.params.serve import Alarm
from plumbline.serve.predictions import write_predictions
from plumbline.serve.score import alarms, rules
from plumbline.serve.score.alarms import ENDED, GOES_ON, NEW, Watch, update_alarms
from plumbline.serve.score.messages import MAX_LISTED, mark_sent, unsent
from plumbline.serve.score.results import PREDICTIONS
from plumbline.serve.score.rules import check_rules
from tests.refusals import refuses, warned, warning_keys
from tests.serve.made import table_of
from tests.serve.score.test_results import publish
from tests.tiny import PARAMS

SE = (0.1, 0.1, 0.1, 0.7)
DAMAGED = {"name": "damaged", "when": "p_damaged > 0.5", "ends": 0.3}
Values = Sequence[float | None]


def states(rule: Alarm, values: Values, moved: Sequence[int] = ()) -> list[tuple[int, str, str]]:
    """Step, state and beginning of each row of a building that has these values, delivery by delivery."""
    watch, found = Watch(rule), []
    for step, value in enumerate(values):
        given = pd.Series({} if value is None else {"a": value}, dtype=float)
        rows = watch.apply(given, f"{step:03}", ["a"] if step in moved else [])
        found += [(step, state, since) for _, state, since in rows]
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Alarm, list[float | None]]:
    comparison = draw(st.sampled_from((">", ">=", "<", "<=")))
    harmless = draw(st.sampled_from((0.0, 0.25, 0.5))) * (1 if comparison[0] == "<" else -1)
    rule = Alarm(name="r", when=f"p {comparison} 0.5", ends=0.5 + harmless, in_a_row=draw(st.integers(1, 4)))
    grid = st.sampled_from((None, 0.0, 0.2, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0))
    return rule, draw(st.lists(grid, max_size=25))


@settings(max_examples=80)
@given(cases())
@example((Alarm(name="r", when="p > 0.5", ends=0.3, in_a_row=2), [0.6, None, 0.6, 0.4, None, 0.3, 0.6]))
def test_an_alarm_begins_after_a_row_goes_on_and_ends_at_its_bound(case: tuple[Alarm, list[float | None]]):
    rule, values = case
    told = {step: (state, since) for step, state, since in states(rule, values)}
    row, begun = list[bool](), None
    for step, value in enumerate(values):
        state, since = told.get(step, (None, None))
        if begun is not None:
            assert state == (ENDED if value is not None and not rule.holds(value, rule.bound) else GOES_ON)
            assert since == begun < f"{step:03}"
            begun, row = (None, []) if state == ENDED else (begun, row)
            continue
        row += [] if value is None else [bool(rule.holds(value, rule.limit))]
        begins = value is not None and len(row) >= rule.in_a_row and all(row[-rule.in_a_row :])
        assert (state, since) == ((NEW, f"{step:03}") if begins else (None, None))
        begun = since


def test_a_name_that_went_to_another_house_begins_from_nothing():
    rule = Alarm(name="r", when="p > 0.5")
    assert states(rule, [0.9, 0.9, 0.9, 0.9], moved=[2]) == [
        (1, NEW, "001"),
        (2, ENDED, "001"),
        (3, NEW, "003"),
    ]


class Place:
    """A project with rules, and results that are made by hand."""

    def __init__(self, folder: Path, *given: Mapping[str, Any], name: str = "town", **ingest: Any) -> None:
        self.folder, self.name, self.out = folder, name, folder / "score"
        self.rules(*given, **ingest)

    def rules(self, *given: Mapping[str, Any], **ingest: Any) -> Params:
        section = {"source": str(self.folder), "out": str(self.out), "alarms": list(given)}
        self.params = parse_params(PARAMS | {"score": section, "ingest": ingest})
        return self.params

    def publish(self, delivery: str, crs: str = "EPSG:3035", made: int = 0, to: str = "", **p_damaged: Any) -> str:
        """Results of a delivery named by its last day: building -> p_damaged; None: not judged; a pair: (p, place)."""
        ids = list(p_damaged)
        pairs = [value if isinstance(value, tuple) else (value, ord(name[0])) for name, value in p_damaged.items()]
        p = [value for value, _ in pairs]
        square = [shapely.box(4e6 + 50 * at, 3e6, 4e6 + 50 * at + 10, 3e6 + 10) for _, at in pairs]
        frame = geopandas.GeoDataFrame({"building_id": ids}, geometry=square, crs="EPSG:3035").to_crs(crs)
        status = ["insufficient_points" if value is None else "ok" for value in p]
        probability = np.array([0.0 if value is None else value for value in p])
        severity, each = np.where(probability > 0.5, 1.0, 0.0), np.ones(len(p))
        table = table_of(frame, status, 9 * each, [SE] * len(p), severity, 0 * each, 2 * each, p_damaged=probability)
        predictions = self.out / PREDICTIONS
        predictions.parent.mkdir(parents=True, exist_ok=True)
        write_predictions(table, predictions)
        about = {"observed": {"from": "2020-01-01", "to": to or delivery}, "made": f"2026-11-01T00:00:{made:02}+00:00"}
        files = {PREDICTIONS: {"sha256": sha256_file(predictions)}}
        one = publish(self.out, delivery, place=self.name, files=files, **about)
        predictions.replace(self.out / self.name / one.folder_name / PREDICTIONS)
        return one.folder_name

    def update(self) -> str:
        update_alarms(self.params, self.name)
        return (self.out / self.name / "alarms.csv").read_text()

    def lines(self) -> list[str]:
        """Building, state, since, ended and value of each row, and the day of its delivery."""
        table = pd.read_csv(StringIO(self.update()), dtype=str, keep_default_na=False)
        return [
            f"{row.delivery[:4]} {row.building_id} {row.state} {row.since} {row.ended} {row.value}"
            for row in table.itertuples()
        ]

    def tell(self) -> list[str]:
        """Subjects of the messages, which are sent."""
        self.update()
        messages = unsent(self.out, self.name)
        for message in messages:
            mark_sent(self.out, message, "test")
        return [message.subject for message in messages]


def test_the_file_lists_the_latest_delivery_first_the_worst_on_top(tmp_path: Path):
    place = Place(tmp_path, DAMAGED)
    place.publish("2021", a=0.6, b=0.9, c=0.1, NA=0.7)
    place.publish("2022", a=0.75, b=0.9, c=0.6, NA=None)
    assert place.update().splitlines() == [
        "building_id,rule,state,since,ended,column,value,limit,delivery",
        "b,damaged,new,2022,,p_damaged,0.9,0.5,2022-abababab",
        "a,damaged,new,2022,,p_damaged,0.75,0.5,2022-abababab",
    ]
    place.publish("2023", "EPSG:32631", a=0.25, b=None, c=0.4, NA=0.7)
    place.publish("2024", a=0.6, c=0.6)
    assert place.lines() == [
        "2024 NA goes_on 2023  ",
        "2024 b goes_on 2022  ",
        "2023 NA new 2023  0.7",
        "2023 a ended 2022 2023 0.25",
        "2023 b goes_on 2022  ",
        "2022 b new 2022  0.9",
        "2022 a new 2022  0.75",
    ]


def test_any_order_of_arrival_gives_the_same_file(tmp_path: Path):
    deliveries: dict[str, dict[str, Any]] = {
        "2021": {"a": 0.6, "b": 0.1, "c": 0.9},
        "2022": {"a": 0.6, "b": 0.6, "c": 0.9},
        "2023": {"a": 0.2, "b": 0.6},
        "2024": {"a": 0.6, "b": 0.6, "c": (0.9, 7)},
    }
    files = set()
    for order in ("4321", "2413"):
        place = Place(tmp_path / order, DAMAGED)
        for made, name in enumerate(f"202{number}" for number in order):
            place.publish(name, made=made, **deliveries[name])
            told = place.update()
        files.add(told)
    assert len(files) == 1
    assert "c,damaged,ended,2022,2024," in files.pop()  # its name has gone to another house


def test_a_killed_run_leaves_it_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = Place(tmp_path, DAMAGED)
    place.publish("2021", a=0.6)
    place.publish("2022", a=0.6)
    whole = place.update()
    path = place.out / "town" / "alarms.csv"
    written = path.stat().st_mtime_ns
    assert place.update() == whole
    assert path.stat().st_mtime_ns == written  # it is not made twice

    place.publish("2023", a=0.6)
    with monkeypatch.context() as patch:
        patch.setattr(alarms, "write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            place.update()
    assert unsent(place.out, "town") == []  # until it is known what the file is of
    after = path.read_text()
    path.write_text(after[:30])
    assert place.update() == after != whole
    assert len(unsent(place.out, "town")) == 1


def test_a_delivery_that_is_judged_again_replaces_its_part(tmp_path: Path):
    place = Place(tmp_path, DAMAGED)
    for name in ("2021", "2022", "2023"):
        place.publish(name, a=0.6, b=0.6)
    assert place.tell() == ["Plumbline: town, 2 new alarms: damaged"]
    place.publish("2022", made=9, a=0.1, b=0.6)
    assert place.lines() == ["2023 b goes_on 2022  0.6", "2022 b new 2022  0.6"]
    (message,) = unsent(place.out, "town")
    assert message.subject == "Plumbline: town, 1 alarm ended: damaged"
    assert "- a: no alarm any more, because a delivery was judged again" in message.body


def test_deliveries_to_the_same_day_are_one_step_and_the_one_judged_last_counts(tmp_path: Path):
    place = Place(tmp_path, DAMAGED)
    place.publish("2021north", to="2021", a=0.6, b=0.6)
    place.publish("2021south", "EPSG:32631", to="2021", made=1, b=0.1, c=0.6)
    assert place.lines() == []
    place.publish("2022", made=2, a=0.6, b=0.6, c=0.6)
    assert place.lines() == ["2022 a new 2022  0.6", "2022 c new 2022  0.6"]


def test_rules_are_of_a_place_of_buildings_or_of_a_polygon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("plumbline.core.console.log.propagate", True)
    ground = geopandas.GeoDataFrame(geometry=[shapely.box(4e6 + 50 * ord("b"), 3e6, 4e6 + 50 * ord("c") + 5, 3e6 + 5)])
    area, far = tmp_path / "line4.geojson", tmp_path / "far.geojson"
    ground.set_crs("EPSG:3035").to_crs("EPSG:4326").to_file(area)
    ground.translate(1e5).set_crs("EPSG:3035").to_crs("EPSG:4326").to_file(far)
    once = {"when": "p_damaged >= 0.5", "in_a_row": 1}
    given = (
        {"name": "line", **once, "within": str(area)},
        {"name": "far", **once, "within": str(far)},
        {"name": "named", **once, "place": "town", "buildings": ["a", "build-17"]},
        {"name": "other", **once, "place": "harbour"},
    )
    place, harbour = Place(tmp_path, *given), Place(tmp_path, *given, name="harbour")
    answers = {"a": 0.6, "b": 0.6, "c": 0.6, "d": 0.6, "build_17": (0.9, 90)}
    for one in (place, harbour):
        one.publish("2021", "EPSG:32631", **answers)
    found = {one.name: [line.rsplit(",", 7)[0] for line in one.update().splitlines()[1:]] for one in (place, harbour)}
    assert found == {
        "town": ["b,line", "c,line", "a,named"],
        "harbour": ["b,line", "c,line", "build_17,other", "a,other", "b,other", "c,other", "d,other"],
    }
    assert warned(caplog, "alarms.unknown_building", "rule named", "town", "build-17")
    assert warned(caplog, "alarms.empty_area", "rule far", far)

    check_rules(place.params)
    (tmp_path / "town").mkdir()
    (tmp_path / "harbor").mkdir()
    caplog.clear()
    check_rules(place.params)
    assert warning_keys(caplog) == ["alarms.unknown_place"]
    assert warned(caplog, "alarms.unknown_place", "rule other", "harbour", tmp_path)


def test_a_polygon_without_a_crs_takes_what_the_params_state(tmp_path: Path):
    area = tmp_path / "area.csv"
    area.write_text(f'WKT\n"{shapely.box(4e6 + 50 * ord("b"), 3e6, 4e6 + 50 * ord("b") + 5, 3e6 + 5).wkt}"\n')
    rule = {"name": "line", "when": "p_damaged > 0.5", "in_a_row": 1, "within": str(area)}
    place = Place(tmp_path, rule)
    with pytest.raises(InputError, match=r"score\.alarms, rule line: .*area\.csv"):
        check_rules(place.params)
    place.rules(rule, footprints={"area.csv": {"crs": "EPSG:3035"}})
    check_rules(place.params)
    place.publish("2021", a=0.6, b=0.6)
    assert place.lines() == ["2021 b new 2021  0.6"]


def test_each_alarm_is_told_of_once_as_it_begins_and_as_it_ends(tmp_path: Path):
    place = Place(tmp_path, DAMAGED)
    many = {f"{letter}{number}": 0.6 for letter in "abcde" for number in range(5)}
    place.publish("2021", **many)
    assert place.tell() == []
    place.publish("2022", **many)
    place.update()
    (message,) = unsent(place.out, "town")
    assert message.subject == f"Plumbline: town, {len(many)} new alarms: damaged"
    assert message.body.splitlines()[0] == (
        "town: rule damaged (p_damaged > 0.5, 2 in a row, ends at 0.3), observed to 2022: 25 new alarms."
    )
    assert "- a0: p_damaged 0.6, since 2022" in message.body
    assert message.body.count("\n- ") == MAX_LISTED + 1
    assert f"- and {len(many) - MAX_LISTED} more" in message.body
    assert unsent(place.out, "town") == [message]  # until it is sent
    assert place.tell() == [message.subject]
    assert place.tell() == []

    # One ends, one is not judged, and one that comes late moves the beginning of all: only what ended is news.
    place.publish("2023", **{**many, "a0": 0.1, "a1": None})
    place.update()
    (message,) = unsent(place.out, "town")
    assert message.subject == "Plumbline: town, 1 alarm ended: damaged"
    assert "- a0: p_damaged 0.1, since 2022 until 2023" in message.body
    assert place.tell() == [message.subject]
    place.publish("2020", made=9, **many)
    assert place.tell() == []
    assert all(" 2021 " in line for line in place.lines())

    # It begins again.
    for name in ("2024", "2025"):
        place.publish(name, a0=0.6)
    assert place.tell() == ["Plumbline: town, 1 new alarm: damaged"]


def test_without_a_rule_there_is_no_file_and_nothing_to_tell(tmp_path: Path):
    place = Place(tmp_path, DAMAGED)
    for name in ("2021", "2022"):
        place.publish(name, a=0.6)
    place.update()
    for others in ([], [{**DAMAGED, "place": "harbour"}]):
        place.rules(*others)
        update_alarms(place.params, "town")
        assert not (place.out / "town" / "alarms.csv").exists()
        assert unsent(place.out, "town") == []
    place.rules({**DAMAGED, "when": "p_damaged < 0.5", "ends": 0.6})
    assert len(place.update().splitlines()) == 1
    assert unsent(place.out, "town") == []


@pytest.mark.parametrize(
    ("rule", "key", "place"),
    [
        ({"when": "p_damagd > 0.5"}, "alarms.unknown_column", "p_damagd"),
        ({"when": "status > 0.5"}, "alarms.column_type", "status"),
        ({"when": "p_damaged > 50"}, "alarms.not_a_share", "50 found"),
        ({"when": "p_damaged > 0.5", "ends": -1}, "alarms.not_a_share", "-1 found"),
        ({"when": "n_points > 5", "within": "lines.geojson"}, "alarms.not_a_polygon", "lines.geojson: LineString"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused_before_anything_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any], key: str, place: str
):
    from plumbline.serve.score.run import score

    monkeypatch.chdir(tmp_path)
    geopandas.GeoDataFrame(geometry=[shapely.LineString([(4, 50), (5, 51)])], crs="EPSG:4326").to_file("lines.geojson")
    with refuses(key, "score.alarms, rule bad", place):
        score(Place(tmp_path, {"name": "bad", **rule}).params, lambda: pytest.fail("a model was asked for"))
    with pytest.raises(InputError, match=r"rule bad: none\.gpkg"):
        check_rules(Place(tmp_path, {"name": "bad", **rule, "when": "n_points > 5", "within": "none.gpkg"}).params)
    assert not (tmp_path / "score").exists()


def test_the_rules_of_the_documentation_and_of_the_shipped_params_can_be_applied():
    root = Path(__file__).parents[3]
    (text,) = re.findall(r"```yaml\n(.*?)```", (root / "docs" / "score.md").read_text(), re.DOTALL)
    documented = Score.model_validate(yaml.safe_load(text)["score"]).alarms
    assert load_params(root / "params.yaml").score.alarms == documented[:1]
    assert {rule.column for rule in documented} <= set(rules.DTYPES)
