"""Packed bodies of requests arrive unpacked, and never larger than the service takes."""

import asyncio
import gzip
import itertools
import json
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.service.guard import PIECE_BYTES, Guard
from plumbline.service.monitoring import Meters
from plumbline.service.problems import Problem
from plumbline.service.settings import ServiceLimits, ServiceSettings

MB = 1_000_000


PACKED = {
    "gzip": ("GZIP", gzip.compress),
    "zlib": (" deflate ", zlib.compress),
    "as it is": ("identity", bytes),
    "no name": ("", bytes),
}


def asked(chunks, encoding, kind=""):
    """Send a body in chunks; returns status and body of the answer, and the body that the service read."""
    sent, read = [], []

    async def application(scope, receive, send):
        more = True
        while more:
            try:
                message = await receive()
            except Problem as problem:  # as the real application answers it
                await problem.response()(scope, receive, send)
                return
            assert len(message["body"]) <= max(PIECE_BYTES, *map(len, chunks), 1)
            read.append(message["body"])
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask():
        coming = iter([*chunks[:-1]])

        async def receive():
            for chunk in coming:
                return {"type": "http.request", "body": chunk, "more_body": True}
            return {"type": "http.request", "body": chunks[-1], "more_body": False}

        async def send(message):
            sent.append(message)

        settings = ServiceSettings(folder=".", limits=ServiceLimits(upload_mb=1))
        own = [(b"content-encoding", encoding.encode()), (b"content-length", str(sum(map(len, chunks))).encode())]
        own.append((b"content-type", kind.encode()))
        await Guard(application, settings, Meters())(
            {"type": "http", "method": "POST", "path": "/v1/predict", "headers": own}, receive, send
        )

    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may have a loop in this thread
        pool.submit(asyncio.run, ask()).result()
    return sent[0]["status"], sent[1]["body"], read


def cut(body: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[first:last] for first, last in itertools.pairwise(ends)]


@given(
    body=st.one_of(st.binary(max_size=300), st.integers(0, 3 * PIECE_BYTES).map(lambda size: b"ab" * (size // 2))),
    way=st.sampled_from(sorted(PACKED)),
    places=st.lists(st.integers(0, 2**20), max_size=5),
)
def test_a_packed_body_arrives_as_it_was_whatever_its_chunks(body, way, places):
    encoding, pack = PACKED[way]
    status, _, read = asked(cut(pack(body), places), encoding)
    assert (status, b"".join(read)) == (200, body)


@pytest.mark.parametrize("way", ["gzip", "zlib"])
def test_a_bomb_is_stopped_in_constant_memory(way):
    encoding, pack = PACKED[way]
    packed = pack(bytes(60 * MB))
    chunks = cut(packed, list(range(0, len(packed), 2**16)))
    tracemalloc.start()
    status, said, read = asked(chunks, encoding)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status == 413
    assert json.loads(said)["key"] == "request.too_large"
    assert sum(map(len, read)) <= MB
    assert most < 3 * MB


NOISE = b"".join(zlib.crc32(number.to_bytes(4)).to_bytes(4) for number in range(300_000))


@pytest.mark.parametrize(
    ("packed", "encoding", "status", "key"),
    [
        (b'{"a": 1}', "gzip", 400, "request.damaged"),
        (b"\xff" * 99, "deflate", 400, "request.damaged"),
        (b"", "gzip", 400, "request.packed_end"),
        (gzip.compress(b"a" * 99)[:-4], "gzip", 400, "request.packed_end"),
        (zlib.compress(b"a" * 99)[:-1], "deflate", 400, "request.packed_end"),
        (gzip.compress(b"ab" * PIECE_BYTES)[:-9], "gzip", 400, "request.packed_end"),  # more than a piece is in zlib
        (gzip.compress(b"a") + gzip.compress(b"b"), "gzip", 400, "request.packed_end"),
        (zlib.compress(b"a") + b"junk", "deflate", 400, "request.packed_end"),
        (gzip.compress(NOISE), "gzip", 413, "request.too_large"),
        (gzip.compress(b"a"), "br", 415, "request.unknown_encoding"),
        (gzip.compress(b"a"), "\xff" * 99, 415, "request.unknown_encoding"),
        (gzip.compress(gzip.compress(b"a")), "gzip, gzip", 415, "request.unknown_encoding"),
    ],
)
def test_a_body_that_is_not_what_its_header_says_is_refused(packed, encoding, status, key):
    answer, body, read = asked([packed], encoding)
    assert (answer, json.loads(body)["key"]) == (status, key)
    assert status == 400 or read == []


@pytest.mark.parametrize("way", [None, *PACKED])
def test_a_form_without_its_end_is_refused_and_loses_no_part_without_a_word(way):
    form = b'--here\r\nContent-Disposition: form-data; name="damage_rate"\r\n\r\n0.01\r\n'
    encoding, pack = PACKED[way] if way else ("", bytes)
    for body, wanted in ((form, 400), (form + b"--here--\r\n", 200)):
        status, said, _ = asked(cut(pack(body), [9, 40]), encoding, 'multipart/form-data; boundary="here"')
        assert status == wanted
        assert (b"request.form_cut_off" in said) == (wanted == 400)
