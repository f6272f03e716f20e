"""Check refusals and warnings by their keys, and by the file and place that they name."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from plumbline.core.errors import InputError, PlumblineError


@contextmanager
def refuses(
    key: str, *places: object, error: type[PlumblineError] = InputError
) -> Iterator[pytest.ExceptionInfo[PlumblineError]]:
    """Expect a refusal with this key in the block; its message contains each of `places` (file, row, column, value)."""
    with pytest.raises(error) as refusal:
        yield refusal
    assert refusal.value.key == key, str(refusal.value)
    for place in places:
        assert str(place) in str(refusal.value)
    del refusal  # the traceback holds this frame: with it, files that were open would stay so


def warned(caplog: pytest.LogCaptureFixture, key: str, *places: object) -> list[str]:
    """Return the messages of the warnings with this key, whose message contains each of `places`."""
    messages = [record.getMessage() for record in caplog.records if getattr(record, "key", "") == key]
    return [message for message in messages if all(str(place) in message for place in places)]


def warning_keys(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the keys of all warnings, in order."""
    return [getattr(record, "key", "") for record in caplog.records if record.levelname == "WARNING"]
