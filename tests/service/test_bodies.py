"""Packed bodies of requests arrive unpacked, and never larger than the service takes."""

import asyncio
import gzip
import itertools
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.service.bodies import PIECE_BYTES
from plumbline.service.guard import Guard
from plumbline.service.monitoring import Meters
from plumbline.service.settings import Limits, Settings

MB = 1_000_000


def bare(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def members(body: bytes) -> bytes:
    half = len(body) // 2
    return gzip.compress(body[:half]) + gzip.compress(b"") + gzip.compress(body[half:])


PACKED = {
    "gzip": ("gzip", gzip.compress),
    "several members": ("GZIP", members),
    "old name": ("x-gzip", gzip.compress),
    "zlib": ("deflate", zlib.compress),
    "bare deflate": (" deflate ", bare),
    "as it is": ("identity", bytes),
    "no name": ("", bytes),
}


def asked(chunks, *encodings, kind=None):
    """Send a body in chunks; returns status, headers and body of the answer, and the body that the service read."""
    sent, read, headers = [], [], []

    async def application(scope, receive, send):
        headers.extend(scope["headers"])
        more = True
        while more:
            message = await receive()
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

        settings = Settings(folder=".", limits=Limits(upload_mb=1))
        named = [(b"content-encoding", one.encode()) for one in encodings]
        named += [(b"content-type", kind)] if kind else []
        own = [*named, (b"content-length", str(sum(map(len, chunks))).encode())]
        await Guard(application, settings, Meters())(
            {"type": "http", "method": "POST", "path": "/v1/predict", "headers": own}, receive, send
        )

    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may have a loop in this thread
        pool.submit(asyncio.run, ask()).result()
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"], read, headers


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
    status, _, _, read, headers = asked(cut(pack(body), places), encoding)
    assert (status, b"".join(read)) == (200, body)
    names = {name for name, _ in headers}
    assert (b"content-length" in names) == (encoding in ("", "identity"))


@pytest.mark.parametrize("way", ["gzip", "zlib", "bare deflate", "several members"])
def test_a_bomb_is_stopped_in_constant_memory(way):
    encoding, pack = PACKED[way]
    packed = pack(bytes(300 * MB))
    chunks = cut(packed, list(range(0, len(packed), 2**16)))
    tracemalloc.start()
    status, _, said, read, _ = asked(chunks, encoding)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert status == 413
    assert b"The request unpacks to more than 1 MB" in said
    assert sum(map(len, read)) <= MB
    assert most < 3 * MB


def test_a_body_packed_to_more_than_is_taken_is_not_unpacked():
    noise = b"".join(zlib.crc32(number.to_bytes(4)).to_bytes(4) for number in range(300_000))
    status, _, said, read, _ = asked([gzip.compress(noise)], "gzip")
    assert (status, read) == (413, [])
    assert b"The request has more than 1 MB" in said


@pytest.mark.parametrize(
    ("encodings", "said"),
    [
        (["br"], b"Content-Encoding 'br' is not known. Known are gzip, deflate"),
        (["zstd"], b"'zstd' is not known"),
        (["\xff" * 99], b"is not known"),
        (["gzip, gzip"], b"names 2 encodings. Pack the body once"),
        (["gzip", "deflate"], b"names 2 encodings"),
        (["identity, br"], b"'br' is not known"),
    ],
)
def test_other_encodings_and_nested_ones_are_refused_with_the_known_ones(encodings, said):
    status, headers, body, read, _ = asked([gzip.compress(b"a")], *encodings)
    assert (status, headers[b"accept-encoding"], read) == (415, b"gzip, deflate", [])
    assert said in body


@pytest.mark.parametrize(
    ("packed", "encoding", "said"),
    [
        (b'{"a": 1}', "gzip", b"The body is not gzip, as Content-Encoding says"),
        (b"\xff" * 99, "deflate", b"The body is not deflate"),
        (gzip.compress(b"a" * 99)[:-4], "gzip", b"The body was cut off"),
        (zlib.compress(b"a" * 99)[:-1], "deflate", b"The body was cut off"),
        (bare(b"a" * 99)[:-1], "deflate", b"The body was cut off"),
        (gzip.compress(b"a") + b"junk", "gzip", b"The body is not gzip"),
        (zlib.compress(b"a") + b"junk", "deflate", b"The body goes on behind its end"),
    ],
)
def test_a_body_that_is_not_what_its_header_says_is_refused(packed, encoding, said):
    status, _, body, _, _ = asked([packed], encoding)
    assert status == 400
    assert said in body


FORM = b'--X y\r\nContent-Disposition: form-data; name="a"; filename="a.csv"\r\n\r\n1\r\n--X y--\r\n'


@pytest.mark.parametrize("way", ["gzip", "as it is"])
@pytest.mark.parametrize("places", [[], [20, 40], [len(FORM) - 6]])
def test_a_form_without_its_end_is_refused_and_no_part_left_out(way, places):
    """The parser would drop the last part without a word."""
    encoding, pack = PACKED[way]
    kind = b'multipart/form-data; charset=utf-8; boundary="X y"'
    status, _, _, read, _ = asked(cut(pack(FORM), places), encoding, kind=kind)
    assert (status, b"".join(read)) == (200, FORM)
    for lost in (2, 4, 6, 20):
        status, _, said, _, _ = asked(cut(pack(FORM[:-lost]), places), encoding, kind=kind)
        assert (status, b"closing boundary" in said) == ((200, False) if lost == 2 else (400, True))
