"""What validation saw of each building: the same when it is read again."""

import numpy as np
import pytest

from plumbline.validate.evidence import GateEvidence, read_answers, write_answers
from plumbline.validate.metrics import JudgedAnswers
from tests.refusals import refuses

NOTHING = np.full(3, np.nan)
EVIDENCE = GateEvidence(
    {
        "int8": JudgedAnswers(
            np.full((3, 4), 0.25), np.array([0.1, 2.0, 3.0]), NOTHING, NOTHING, NOTHING, NOTHING, 0.4
        ),
        "baseline": JudgedAnswers(np.eye(4)[:3], np.zeros(3), NOTHING, NOTHING),
    },
    np.array([-1, 2, 3]),
    np.array([0.2, 2.2, 3.1]),
    {"all": np.ones(3, bool), "city:Zürich/a.b": np.array([True, False, True])},
)


def test_all_of_it_is_read_again(tmp_path):
    write_answers(EVIDENCE, tmp_path / "answers.npz")
    evidence = read_answers(tmp_path / "answers.npz")
    np.testing.assert_equal(evidence._asdict(), EVIDENCE._asdict())
    assert isinstance(evidence.everyone["int8"], JudgedAnswers)
    assert evidence.everyone["baseline"].confidence is None


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 and no more"])
def test_what_is_missing_or_damaged_is_named(tmp_path, content):
    path = tmp_path / "answers.npz"
    if content is not None:
        path.write_bytes(content)
    with refuses("file.missing" if content is None else "evidence.unreadable", path, "`plumbline validate`"):
        read_answers(path)
