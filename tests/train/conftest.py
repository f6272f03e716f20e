"""As for the model: one thread."""

from tests.model.conftest import one_thread

__all__ = ["one_thread"]
