"""What several folders of tests share. Hypothesis without deadlines: on a busy machine a first call may take long."""

from hypothesis import settings

from tests.tiny import tiny

__all__ = ["tiny"]

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
