"""The remote: folders that cannot be written to, and servers, real ones, that are there or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.doctor.probes import State
from plumbline.doctor.servers import check_remote
from tests.doctor.conftest import PLACE, faults, states, warnings


def address(url: str, *lines: str) -> None:
    settings = [f"    {line}" for line in (f"url = {url}", *lines)]
    Path(".dvc/config").write_text("\n".join(["[core]", "    remote = team", "['remote \"team\"']", *settings, ""]))


def test_a_folder_takes_a_file_and_none_is_left(project: Path) -> None:
    assert states(check_remote) == [State.OK]
    (project / ".dvc-remote").mkdir()
    assert states(check_remote) == [State.OK]
    assert list((project / ".dvc-remote").iterdir()) == []


def test_no_remote(project: Path) -> None:
    Path(".dvc/config").write_text("")
    assert "no default remote" in warnings(check_remote)


def test_a_mount_that_is_gone(project: Path) -> None:
    address(str(project.parent / "not" / "mounted"))
    assert "Mount it" in faults(check_remote)


def test_a_file_where_the_folder_should_be(project: Path) -> None:
    (project / "file").touch()
    address(str(project / "file"))
    assert "is no folder" in faults(check_remote)
    address(str(project / "file" / "below"))
    assert "nothing can be written there" in faults(check_remote)


def test_a_folder_of_a_file_system_that_takes_no_files(project: Path) -> None:
    """/proc refuses a new file to everyone, root too."""
    address("/proc/self")
    assert "nothing can be written there (/proc/self: " in faults(check_remote)


def test_settings_that_dvc_cannot_read(project: Path) -> None:
    Path(".dvc/config").write_text("[core")
    with pytest.raises(OSError, match="dvc config --list"):
        list(check_remote(PLACE))


@pytest.mark.chaos
def test_an_s3_server_takes_an_object_and_none_is_left(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one of which nothing answers; the team's own objects stay."""
    pytest.importorskip("dvc_s3")
    moto = pytest.importorskip("moto.server")
    import boto3

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        keys = {"aws_access_key_id": "name", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        bucket = boto3.resource("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="bucket")
        bucket.put_object(Key="team/files/md5/00/11", Body=b"of the team")
        address(
            "s3://bucket/team",
            f"endpointurl = {endpoint}",
            "access_key_id = name",
            "secret_access_key = secret",
            "region = us-east-1",
        )
        assert states(check_remote) == [State.OK]
        assert [item.key for item in bucket.objects.all()] == ["team/files/md5/00/11"]
        address("s3://another/team", f"endpointurl = {endpoint}", "access_key_id = name", "secret_access_key = secret")
        said = faults(check_remote)
        assert "`dvc push` of a small object failed" in said
        assert "secret" not in said
    finally:
        server.stop()
