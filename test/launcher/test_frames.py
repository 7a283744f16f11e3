# SPDX-License-Identifier: MIT
"""The launcher's frame codec, by itself and against the C one (monitors/proto/control.c)."""

import random
import shutil
import struct
import subprocess

import pytest
from conftest import HERE, ROOT
from tessera_launcher import frames
from tessera_launcher.frames import Decoder, End, Frame, ProtocolError, Type

RUN = frames.Run("/bin/cat", ["cat", "", "-n"], ["A=b", "EMPTY="], "/tmp", 1000, 100, 0o27,
                 True, 25, 80)  # fmt: skip

SAMPLES = {
    End.NODE: [
        Frame(Type.HELLO, 0, 0, frames.encode_hello(frames.Hello(2, 5, 1 << 63, "v1"))),
        Frame(Type.READY, 0, 0, frames.encode_ready(frames.Ready(9, 1, 2, 3))),
        Frame(Type.STATUS, 0, 0, b"waiting"),
        Frame(Type.ERROR, 7, 0, b"x" * frames.MAX_LINE),
        Frame(Type.STARTED, 1, 0, frames.encode_started(frames.Started(42, 1 << 40))),
        Frame(Type.REFUSED, 1, 0, frames.encode_errno(8, "not an ELF")),
        Frame(Type.DATA, 1, 2, b"\0\xff" * 300),
        Frame(Type.CREDIT, 1, 0, frames.encode_credit(4096)),
        Frame(Type.EOF, 0xFFFFFFFF, 1, b""),
        Frame(Type.EXIT, 1, 0, frames.encode_exit(frames.Exit(0x8B, 77))),
        Frame(Type.STATS, 0, 0, b"{}" * 50000),
        Frame(Type.DEBUG_REPLY, 3, 0, frames.encode_errno(0, "done")),
        Frame(Type.PLACED, 4, 0, frames.encode_placed(0, 2)),
        Frame(Type.MEMBERS, 0, 0, frames.encode_members(9, {3: 0xFFFFFFFF, 1: 5})),
        Frame(Type.GATEWAY),
        Frame(Type.ADDRESSES, 0, 0, frames.encode_addresses(["10.0.2.15", "fec0::1"])),
    ],
    End.HOST: [
        Frame(Type.RUN, 1, 0, frames.encode_run(RUN)),
        Frame(Type.DATA, 1, 0, b"input"),
        Frame(Type.CREDIT, 1, 2, frames.encode_credit(frames.MAX_CREDIT)),
        Frame(Type.EOF, 1, 0, b""),
        Frame(Type.WINSIZE, 1, 0, frames.encode_winsize(24, 80, 1, 2)),
        Frame(Type.SIGNAL, 1, 0, frames.encode_signal(64)),
        Frame(Type.STATS_REQ),
        Frame(Type.SHUTDOWN),
        Frame(Type.DEBUG, 9, 0, b"help"),
        Frame(Type.PLACE, 4, 0, frames.encode_place(1)),
        Frame(Type.LOST, 0, 0, frames.encode_lost(3, 1 << 31)),
    ],
}


def raw(kind=Type.STATUS, *, magic=b"TSCL", version=1, stream=0, flags=0, prog=0, payload=b"x"):
    return frames._HDR.pack(magic, version, kind, stream, flags, prog, len(payload)) + payload


@pytest.mark.parametrize("end", End)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_round_trip_in_pieces_of_any_size(end, step):
    data = b"".join(frames.encode(f) for f in SAMPLES[end])
    decoder = Decoder(end)
    got = [f for i in range(0, len(data), step) for f in decoder.feed(data[i : i + step])]
    assert got == SAMPLES[end]
    assert decoder.at_boundary()


@pytest.mark.parametrize("bad", [
    raw(magic=b"TSCX"), raw(version=2), raw(0), raw(23), raw(flags=1), raw(flags=2), raw(stream=1),
    raw(prog=1), raw(payload=b""), raw(payload=b"x" * 1025), raw(Type.SHUTDOWN, payload=b""),
    raw(Type.DATA, prog=1, stream=0), raw(Type.DATA, prog=1, stream=3),
    raw(Type.DATA, prog=0, stream=1), raw(Type.DATA, prog=1, stream=1, payload=b""),
    raw(Type.EXIT, prog=1, payload=b"short"), raw(Type.STATS, flags=2),
])  # fmt: skip
def test_bad_headers_from_a_node_are_refused(bad):
    with pytest.raises(ProtocolError):
        list(Decoder(End.NODE).feed(bad))


def test_long_payloads_are_bounded_and_not_interleaved():
    piece = raw(Type.STATS, flags=1, payload=b"x" * frames.MAX_PAYLOAD)
    with pytest.raises(ProtocolError, match="longer"):
        list(Decoder(End.NODE).feed(piece * 17))
    with pytest.raises(ProtocolError, match="inside"):
        list(Decoder(End.NODE).feed(piece + raw(Type.STATUS)))
    many = b"".join(raw(Type.DEBUG_REPLY, flags=1, prog=i, payload=b"abcd") for i in range(1, 18))
    with pytest.raises(ProtocolError, match="more than 16"):
        list(Decoder(End.NODE).feed(many))


@pytest.mark.parametrize("decode, payload", [
    (frames.decode_hello, b"\4" + bytes(55)), (frames.decode_hello, bytes(55)),
    (frames.decode_hello, b"\1\0\0\1" + bytes(52)), (frames.decode_hello,
                                                     b"\1" + b"\0" * 15 + b"x" * 40),
    (frames.decode_ready, bytes(10) + b"\1\0"), (frames.decode_ready, bytes(11)),
    (frames.decode_started, b"\0" * 4 + b"\1" + bytes(11)),
    (frames.decode_exit, b"\0\0\1\0" + bytes(12)), (frames.decode_exit,
                                                    b"\0" * 4 + b"\1" + bytes(11)),
    (frames.decode_credit, bytes(4)), (frames.decode_credit, b"\1\0\0\1"),
    (frames.decode_signal, bytes(4)), (frames.decode_signal, b"\x41\0\0\0"),
    (frames.decode_errno, b"\0\x10\0\0"), (frames.decode_errno, b"\0"),
    (frames.decode_place, bytes(8)), (frames.decode_place, b"\1\0\0\0\1\0\0\0"),
    (frames.decode_placed, bytes(8)), (frames.decode_placed, b"\1\0\0\0\1\0\0\0"),
    (frames.decode_members, bytes(8)), (frames.decode_members, b"\1\0\0\0" * 5),
    (frames.decode_members, b"\1\0\0\0" * 4), (frames.decode_members, bytes(16)),
    (frames.decode_members, bytes(8) + b"\1\0\0\0" * 4), (frames.decode_lost, bytes(8)),
    (frames.decode_lost, b"\1\0\0\0" * 3), (frames.decode_lost, b"\0\0\1\0\1\0\0\0"),
    (frames.decode_addresses, bytes(15)), (frames.decode_addresses, bytes(17)),
    (frames.decode_placed, b"\0\0\0\0\0\0\1\0"), (frames.decode_run, bytes(31)), (frames.decode_run,
                                                                                  bytes(32)),
])  # fmt: skip
def test_bad_payloads_are_refused(decode, payload):
    with pytest.raises(ProtocolError):
        decode(payload)


def test_addresses_of_both_kinds():
    texts = ["10.0.2.15", "fec0::5054:ff:fe12:3456"]
    payload = frames.encode_addresses(texts)
    assert payload[:16] == bytes(10) + b"\xff\xff\x0a\0\2\x0f" and len(payload) == 32
    assert frames.decode_addresses(payload) == texts and frames.decode_addresses(b"") == []


def test_run_keeps_every_byte():
    got = frames.decode_run(frames.encode_run(RUN))
    assert got.argv == [b"cat", b"", b"-n"] and got.env == [b"A=b", b"EMPTY="]
    assert (got.uid, got.gid, got.umask, got.tty, got.rows, got.cols) == (
        1000,
        100,
        0o27,
        True,
        25,
        80,
    )
    odd = frames.Run("/\udcff", ["\udcfe"])
    assert frames.decode_run(frames.encode_run(odd)).argv == [b"\xfe"]
    with pytest.raises(ProtocolError):
        frames.encode_run(frames.Run("/x", ["a\0b"]))


@pytest.fixture(scope="module")
def c_codec(tmp_path_factory):
    """The C decoder as a filter: frames in on stdin; what it understood, encoded again, on stdout.
    """
    gcc = shutil.which("gcc")
    if not gcc:
        pytest.skip("no gcc")
    out = tmp_path_factory.mktemp("codec") / "codec"
    includes = [f"-I{ROOT}/{d}/include" for d in ("lib", "monitors/proto")]
    subprocess.run(
        [gcc, "-std=gnu11", "-g", "-D_GNU_SOURCE", "-D__TESSERA_HOST__",
         "-fsanitize=address,undefined",
         *includes, "-o", out, HERE / "codec.c", ROOT / "monitors/proto/control.c",
         ROOT / "lib/string.c"],
        check=True,
    )  # fmt: skip
    return out


def through_c(codec, end: End, stream: list[bytes]) -> list[tuple[int, bytes]]:
    """Status and bytes that the C side answers to each frame."""
    data = b"".join(struct.pack("=I", len(d)) + d for d in stream)
    done = subprocess.run([codec, end.value], input=data, capture_output=True)
    assert done.returncode == 0 and b"Sanitizer" not in done.stderr, done.stderr.decode()
    answers, at = [], 0
    while at < len(done.stdout):
        status, length = struct.unpack_from("=II", done.stdout, at)
        answers.append((status, done.stdout[at + 8 : at + 8 + length]))
        at += 8 + length
    assert len(answers) == len(stream)
    return answers


@pytest.mark.parametrize("end", End)
def test_c_decodes_and_encodes_the_same_bytes(c_codec, end):
    samples = [frame for frame in SAMPLES[end] if len(frame.payload) <= frames.MAX_PAYLOAD]
    stream = [frames.encode(frame) for frame in samples]
    for frame, data, answer in zip(samples, stream, through_c(c_codec, end, stream), strict=True):
        assert answer == (0, data), frame.type.name


@pytest.mark.parametrize("end", End)
def test_both_codecs_refuse_the_same(c_codec, end):
    rng = random.Random(1)
    stream = []
    for _ in range(400):
        frame = rng.choice([f for f in SAMPLES[end] if len(f.payload) < 2000])
        data = bytearray(frames.encode(frame))
        # Not the length: that only moves the frame's end. Not text: any byte may stand there.
        at = rng.choice([*range(12), *range(16, min(len(data), 56))])
        data[at] ^= 1 << rng.randrange(8)
        stream.append(bytes(data))
    accepted = 0
    for data, (status, out) in zip(stream, through_c(c_codec, end, stream), strict=True):
        want = python_accepts(end, data)
        assert (status == 0) == want, data.hex()
        if want:
            assert out == data
            accepted += 1
    assert 0 < accepted < len(stream)


def python_accepts(end: End, data: bytes) -> bool:
    check = {
        Type.HELLO: frames.decode_hello, Type.READY: frames.decode_ready,
        Type.RUN: frames.decode_run, Type.STARTED: frames.decode_started,
        Type.REFUSED: frames.decode_errno, Type.CREDIT: frames.decode_credit,
        Type.WINSIZE: frames.decode_winsize, Type.SIGNAL: frames.decode_signal,
        Type.EXIT: frames.decode_exit, Type.DEBUG_REPLY: frames.decode_errno,
        Type.PLACE: frames.decode_place, Type.PLACED: frames.decode_placed,
        Type.MEMBERS: frames.decode_members, Type.LOST: frames.decode_lost,
        Type.ADDRESSES: frames.decode_addresses,
    }  # fmt: skip
    try:
        for frame in Decoder(end).feed(data):
            check.get(frame.type, bytes)(frame.payload)
    except ProtocolError:
        return False
    return True
