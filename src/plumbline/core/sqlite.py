"""Check that the database behind MLflow answers, before MLflow tries it."""

from __future__ import annotations

from urllib.parse import urlsplit

from sqlalchemy import create_engine

from plumbline.core.errors import InputError

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
"""Those that MLflow keeps its records in by itself, by the schemes of their addresses."""


def ask_database(uri: str) -> None:
    """Open the database at `uri` once, where it is one: MLflow tries one that does not
    answer for 100 seconds.

    Raises:
        InputError: the driver that the address names is not installed.
        sqlalchemy.exc.SQLAlchemyError: it does not answer, or the address cannot be read.
    """
    if urlsplit(uri).scheme.partition("+")[0] not in DATABASES:
        return
    try:
        engine = create_engine(uri)
    except ModuleNotFoundError as error:
        raise InputError(
            f"MLFLOW_TRACKING_URI: its database needs the module {error.name}; install it.",
            key="registry.driver_missing",
        ) from None
    try:
        engine.connect().close()
    finally:
        engine.dispose()
