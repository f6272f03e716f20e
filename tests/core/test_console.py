import logging
from types import SimpleNamespace

import pytest

from plumbline.core import console
from plumbline.core.console import log, setup_logging, track


@pytest.fixture(autouse=True)
def _log_as_it_was():
    before = (log.handlers, log.level, log.propagate)
    yield
    log.handlers, log.propagate = before[0], before[2]
    log.setLevel(before[1])


@pytest.fixture
def plain(monkeypatch):
    """Standard error is no terminal."""
    monkeypatch.setattr(console.console, "_force_terminal", False)


def test_lines_are_plain_where_there_is_no_terminal(plain, capsys):
    setup_logging()
    log.info("read %d files", 3)
    log.debug("hidden")
    log.warning("odd")
    out, err = capsys.readouterr()
    assert err == "INFO read 3 files\nWARNING odd\n"
    assert out == ""
    setup_logging(verbose=True)
    log.debug("detail")
    assert capsys.readouterr().err == "DEBUG detail\n"


def test_track_reports_now_and_then(plain, monkeypatch, caplog):
    clock = iter(range(0, 100, 2))
    # Its own: on the module `time` other threads would move the clock.
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    log.handlers, log.propagate = [], True  # what a command before left would catch each line again
    with caplog.at_level(logging.INFO, "plumbline"):
        assert list(track("abcdef", 6, "work")) == list("abcdef")
    # Two seconds an item, and a line after more than five.
    said = [record.getMessage() for record in caplog.records]
    assert said == ["work: 2 of 6, about 10 s left", "work: 5 of 6, about 5 s left"]


def test_what_other_processes_have_done_counts_when_it_comes(plain, monkeypatch, caplog):
    clock = iter(range(0, 10_000, 600))
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    log.handlers, log.propagate = [], True
    heard = []
    monkeypatch.setattr(console, "_listeners", [lambda *said: heard.append(said)])
    with caplog.at_level(logging.INFO, "plumbline"):
        assert list(track("abc", 3, "work", finished=True)) == list("abc")
    said = [record.getMessage() for record in caplog.records]
    assert said == ["work: 1 of 3, about 20 min left", "work: 2 of 3, about 10 min left", "work: 3 of 3"]
    assert heard == [("work", done, 3) for done in (1, 2, 3)]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.1, "5 s"), (42, "40 s"), (57, "55 s"), (58, "1 min"), (170, "3 min"), (5399, "90 min"), (9000, "2.5 h")],
)
def test_a_time_is_rounded_as_people_say_it(seconds, said):
    assert console.rounded_time(seconds) == said
