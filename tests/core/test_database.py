import socket

import pytest
from sqlalchemy.exc import SQLAlchemyError

from plumbline.core.sqlite import ask_database
from tests.refusals import refuses


def test_one_that_does_not_answer_says_so_at_once(tmp_path):
    with pytest.raises(SQLAlchemyError, match="unable to open"):
        ask_database(f"sqlite:///{tmp_path}/nowhere/mlflow.db")


def test_one_that_answers_and_what_is_no_database_are_let_through(tmp_path):
    ask_database(f"sqlite:///{tmp_path}/mlflow.db")
    ask_database(tmp_path.as_uri())
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        ask_database(f"http://127.0.0.1:{unused.getsockname()[1]}")


def test_a_driver_that_is_not_installed_is_named():
    with refuses("registry.driver_missing", "MLFLOW_TRACKING_URI", "pymssql"):
        ask_database("mssql+pymssql://somebody@127.0.0.1/mlflow")
