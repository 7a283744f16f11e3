# SPDX-License-Identifier: MIT
"""The control channel's frames, both ends (docs/protocol/control.md).

The C side is monitors/proto/control.c; test/launcher/test_frames.py compares the two.
Decoding is strict: every rule of the page is checked, and anything else is a ProtocolError.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from .errors import one_line

MAGIC = b"TSCL"
VERSION = 1
PORT_NAME = "org.tessera.control"
MAX_PAYLOAD = 65536
MAX_RUN = 2 << 20
MAX_TEXT = 1 << 20
MAX_LINE = 1024
MAX_CREDIT = 16 << 20
MAX_SIGNAL = 64
MAX_ERRNO = 4095
MAX_MEMBERS = 512
MAX_ADDRESSES, ADDRESS_LEN = 128, 16
MAX_JOINS = 16  # long payloads under way at one time
F_MORE = 0x01
RUN_TTY = 0x01

_HDR = struct.Struct("<4sBBBBII")
_HELLO = struct.Struct("<B3sIQ40s")
_READY = struct.Struct("<IHHHH")
_RUN = struct.Struct("<IIIIHHIII")
_STARTED = struct.Struct("<IIQ")
_U32 = struct.Struct("<I")
_WINSIZE = struct.Struct("<HHHH")
_EXIT = struct.Struct("<IIQ")
_PAIR = struct.Struct("<II")
HEADER_SIZE = _HDR.size


class ProtocolError(Exception):
    """The other end broke a rule of docs/protocol/control.md."""


class End(enum.Enum):
    NODE = "node"
    HOST = "host"


class Type(enum.IntEnum):
    HELLO = 1
    READY = 2
    STATUS = 3
    ERROR = 4
    RUN = 5
    STARTED = 6
    REFUSED = 7
    DATA = 8
    CREDIT = 9
    EOF = 10
    WINSIZE = 11
    SIGNAL = 12
    EXIT = 13
    STATS_REQ = 14
    STATS = 15
    SHUTDOWN = 16
    DEBUG = 17
    DEBUG_REPLY = 18
    PLACE = 19
    PLACED = 20
    MEMBERS = 21
    LOST = 22
    GATEWAY = 23
    ADDRESSES = 24


ROLES = {1: "processor", 2: "memory", 3: "storage"}


@dataclass(frozen=True)
class _Rule:
    ends: tuple[End, ...]
    low: int
    high: int
    prog: str = "run"  # "node": 0 only; "run": above 0 only; "any"
    node_streams: tuple[int, ...] = (0,)
    host_streams: tuple[int, ...] = (0,)
    more: int = 0  # the limit of the joined payload, 0: cannot be cut


_NODE, _HOST, _BOTH = (End.NODE,), (End.HOST,), (End.NODE, End.HOST)
_RULES = {
    Type.HELLO: _Rule(_NODE, _HELLO.size, _HELLO.size, "node"),
    Type.READY: _Rule(_NODE, _READY.size, _READY.size, "node"),
    Type.STATUS: _Rule(_NODE, 1, MAX_LINE, "node"),
    Type.ERROR: _Rule(_NODE, 1, MAX_LINE, "any"),
    Type.RUN: _Rule(_HOST, 1, MAX_PAYLOAD, more=MAX_RUN),
    Type.STARTED: _Rule(_NODE, _STARTED.size, _STARTED.size),
    Type.REFUSED: _Rule(_NODE, 4, 4 + MAX_LINE),
    Type.DATA: _Rule(_BOTH, 1, MAX_PAYLOAD, node_streams=(1, 2), host_streams=(0,)),
    Type.CREDIT: _Rule(_BOTH, 4, 4, node_streams=(0,), host_streams=(1, 2)),
    Type.EOF: _Rule(_BOTH, 0, 0, node_streams=(0, 1, 2), host_streams=(0, 1, 2)),
    Type.WINSIZE: _Rule(_HOST, _WINSIZE.size, _WINSIZE.size),
    Type.SIGNAL: _Rule(_HOST, 4, 4),
    Type.EXIT: _Rule(_NODE, _EXIT.size, _EXIT.size),
    Type.STATS_REQ: _Rule(_HOST, 0, 0, "node"),
    Type.STATS: _Rule(_NODE, 1, MAX_PAYLOAD, "node", more=MAX_TEXT),
    Type.SHUTDOWN: _Rule(_HOST, 0, 0, "node"),
    Type.DEBUG: _Rule(_HOST, 1, MAX_PAYLOAD, more=MAX_TEXT),
    Type.DEBUG_REPLY: _Rule(_NODE, 1, MAX_PAYLOAD, more=MAX_TEXT),
    Type.PLACE: _Rule(_HOST, _PAIR.size, _PAIR.size),
    Type.PLACED: _Rule(_NODE, _PAIR.size, _PAIR.size),
    Type.MEMBERS: _Rule(_NODE, 2 * _PAIR.size, (1 + MAX_MEMBERS) * _PAIR.size, "node"),
    Type.LOST: _Rule(_HOST, _PAIR.size, _PAIR.size, "node"),
    Type.GATEWAY: _Rule(_NODE, 0, 0, "node"),
    Type.ADDRESSES: _Rule(_NODE, 0, MAX_ADDRESSES * ADDRESS_LEN, "node"),
}


@dataclass(frozen=True)
class Frame:
    type: Type
    prog: int = 0
    stream: int = 0
    payload: bytes = b""


@dataclass(frozen=True)
class Hello:
    role: int
    node: int
    incarnation: int
    build: str


@dataclass(frozen=True)
class Ready:
    epoch: int
    processors: int
    memories: int
    storages: int


@dataclass(frozen=True)
class Run:
    path: str | bytes
    argv: list[str | bytes]
    env: list[str | bytes] = field(default_factory=list)
    cwd: str | bytes = "/"
    uid: int = 0
    gid: int = 0
    umask: int = 0o022
    tty: bool = False
    rows: int = 0
    cols: int = 0


@dataclass(frozen=True)
class Started:
    pid: int
    uptime_ns: int


@dataclass(frozen=True)
class Exit:
    status: int
    lifetime_ns: int


def encode(frame: Frame) -> bytes:
    """The bytes of a frame, cut into several if it is long and its type may be."""
    out = bytearray()
    view = memoryview(frame.payload)
    limit = _RULES[frame.type].more or MAX_PAYLOAD
    if len(view) > limit:
        raise ProtocolError(f"{frame.type.name} of {len(view)} bytes, the limit is {limit}")
    while True:
        piece, view = view[:MAX_PAYLOAD], view[MAX_PAYLOAD:]
        flags = F_MORE if view else 0
        out += _HDR.pack(MAGIC, VERSION, frame.type, frame.stream, flags, frame.prog, len(piece))
        out += piece
        if not view:
            return bytes(out)


def _decode_header(raw: bytes, end: End) -> tuple[Type, int, int, int, int]:
    magic, version, kind, stream, flags, prog, length = _HDR.unpack(raw)
    if magic != MAGIC or version != VERSION:
        raise ProtocolError(f"bad magic or version: {raw[:5].hex()}")
    try:
        kind = Type(kind)
    except ValueError:
        raise ProtocolError(f"unknown frame type {kind}") from None
    rule = _RULES[kind]
    streams = rule.node_streams if end is End.NODE else rule.host_streams
    if end not in rule.ends:
        raise ProtocolError(f"{kind.name} from the {end.value}")
    if (rule.prog == "node" and prog) or (rule.prog == "run" and not prog):
        raise ProtocolError(f"{kind.name} for program {prog}")
    if stream not in streams:
        raise ProtocolError(f"{kind.name} for stream {stream}")
    if flags & ~(F_MORE if rule.more else 0):
        raise ProtocolError(f"{kind.name} with flags {flags:#x}")
    if not rule.low <= length <= rule.high:
        raise ProtocolError(f"{kind.name} of {length} bytes")
    return kind, stream, flags, prog, length


class Decoder:
    """Turns a byte stream from one end into whole frames; pieces of long ones are joined."""

    def __init__(self, end: End):
        self._end = end
        self._buf = bytearray()
        self._parts: dict[int, tuple[Type, bytearray]] = {}

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buf += data
        pos = 0
        try:
            while len(self._buf) - pos >= HEADER_SIZE:
                raw = bytes(self._buf[pos : pos + HEADER_SIZE])
                kind, stream, flags, prog, length = _decode_header(raw, self._end)
                if len(self._buf) - pos < HEADER_SIZE + length:
                    break
                start = pos + HEADER_SIZE
                payload = bytes(self._buf[start : start + length])
                pos = start + length
                frame = self._join(kind, stream, flags, prog, payload)
                if frame:
                    yield frame
        finally:
            del self._buf[:pos]

    def at_boundary(self) -> bool:
        """No frame has been begun and not ended."""
        return not self._buf and not self._parts

    def _join(self, kind: Type, stream: int, flags: int, prog: int, data: bytes) -> Frame | None:
        begun = self._parts.get(prog)
        if begun and begun[0] is not kind:
            raise ProtocolError(f"{kind.name} inside a {begun[0].name} of program {prog}")
        if not begun and not flags & F_MORE:
            return Frame(kind, prog, stream, data)
        if not begun and len(self._parts) >= MAX_JOINS:
            raise ProtocolError(f"more than {MAX_JOINS} long payloads at one time")
        whole = begun[1] if begun else bytearray()
        if len(whole) + len(data) > _RULES[kind].more:
            raise ProtocolError(f"{kind.name} longer than {_RULES[kind].more} bytes")
        whole += data
        if flags & F_MORE:
            self._parts[prog] = (kind, whole)
            return None
        self._parts.pop(prog, None)
        return Frame(kind, prog, stream, bytes(whole))


def _unpack(form: struct.Struct, payload: bytes, what: str) -> tuple:
    if len(payload) != form.size:
        raise ProtocolError(f"{what} of {len(payload)} bytes")
    return form.unpack(payload)


def _line(payload: bytes) -> str:
    return one_line(payload.decode("utf-8", "replace"))


def encode_hello(hello: Hello) -> bytes:
    return _HELLO.pack(
        hello.role, bytes(3), hello.node, hello.incarnation, hello.build.encode()[:39]
    )


def decode_hello(payload: bytes) -> Hello:
    role, reserved, node, incarnation, build = _unpack(_HELLO, payload, "HELLO")
    text = build.rstrip(b"\0")
    if role not in ROLES or any(reserved) or len(text) == len(build) or b"\0" in text:
        raise ProtocolError("HELLO with bad fields")
    return Hello(role, node, incarnation, _line(text))


def encode_ready(ready: Ready) -> bytes:
    return _READY.pack(ready.epoch, ready.processors, ready.memories, ready.storages, 0)


def decode_ready(payload: bytes) -> Ready:
    epoch, processors, memories, storages, reserved = _unpack(_READY, payload, "READY")
    if reserved:
        raise ProtocolError("READY with bad fields")
    return Ready(epoch, processors, memories, storages)


def _bytes(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise ProtocolError("a string with a NUL byte")
    return raw


def encode_run(run: Run) -> bytes:
    head = _RUN.pack(
        RUN_TTY if run.tty else 0, run.uid, run.gid, run.umask, run.rows, run.cols,
        len(run.argv), len(run.env), 0,
    )  # fmt: skip
    strings = [run.path, run.cwd, *run.argv, *run.env]
    return head + b"".join(_bytes(s) + b"\0" for s in strings)


def decode_run(payload: bytes) -> Run:
    if not _RUN.size <= len(payload) <= MAX_RUN:
        raise ProtocolError(f"RUN of {len(payload)} bytes")
    flags, uid, gid, umask, rows, cols, argc, envc, reserved = _RUN.unpack_from(payload)
    strings = payload[_RUN.size :].split(b"\0")
    if flags & ~RUN_TTY or reserved or umask > 0o777:
        raise ProtocolError("RUN with bad fields")
    if strings.pop() or len(strings) != 2 + argc + envc:
        raise ProtocolError("RUN with bad strings")
    path, cwd, *rest = strings
    if not path.startswith(b"/") or not cwd.startswith(b"/"):
        raise ProtocolError("RUN with a relative path")
    tty = bool(flags & RUN_TTY)
    return Run(path, rest[:argc], rest[argc:], cwd, uid, gid, umask, tty, rows, cols)


def encode_started(started: Started) -> bytes:
    return _STARTED.pack(started.pid, 0, started.uptime_ns)


def decode_started(payload: bytes) -> Started:
    pid, reserved, uptime_ns = _unpack(_STARTED, payload, "STARTED")
    if reserved:
        raise ProtocolError("STARTED with bad fields")
    return Started(pid, uptime_ns)


def encode_errno(err: int, text: str | bytes = b"") -> bytes:
    return _U32.pack(err) + _bytes(text)


def decode_errno(payload: bytes) -> tuple[int, str]:
    """REFUSED and DEBUG_REPLY: the errno and the text."""
    if len(payload) < _U32.size:
        raise ProtocolError(f"an errno of {len(payload)} bytes")
    err = _U32.unpack_from(payload)[0]
    if err > MAX_ERRNO:
        raise ProtocolError(f"errno {err}")
    return err, payload[_U32.size :].decode("utf-8", "replace")


def encode_place(vnode: int) -> bytes:
    return _PAIR.pack(vnode, 0)


def decode_place(payload: bytes) -> int:
    vnode, reserved = _unpack(_PAIR, payload, "PLACE")
    if not vnode or reserved:
        raise ProtocolError("PLACE with bad fields")
    return vnode


def encode_placed(err: int, node: int) -> bytes:
    return _PAIR.pack(err, node)


def decode_placed(payload: bytes) -> tuple[int, int]:
    """An errno, or 0 and a processor node's id."""
    err, node = _unpack(_PAIR, payload, "PLACED")
    if err > MAX_ERRNO or node > 0xFFFF or (err == 0) == (node == 0):
        raise ProtocolError("PLACED with bad fields")
    return err, node


def encode_members(epoch: int, members: dict[int, int]) -> bytes:
    """The incarnations of the cluster's members by node."""
    return _PAIR.pack(epoch, 0) + b"".join(_PAIR.pack(*m) for m in sorted(members.items()))


def decode_members(payload: bytes) -> tuple[int, dict[int, int]]:
    """The epoch, and the incarnations of the members by node."""
    if len(payload) < 2 * _PAIR.size or len(payload) % _PAIR.size:
        raise ProtocolError(f"MEMBERS of {len(payload)} bytes")
    (epoch, reserved), *members = _PAIR.iter_unpack(payload)
    nodes = [node for node, _ in members]
    good = all(0 < n <= 0xFFFF and i for n, i in members)
    if reserved or not good or nodes != sorted(set(nodes)):
        raise ProtocolError("MEMBERS with bad fields")
    return epoch, dict(members)


def encode_addresses(texts: list[str]) -> bytes:
    return b"".join(socket.inet_pton(socket.AF_INET6, t if ":" in t else f"::ffff:{t}")
                    for t in texts)  # fmt: skip


def decode_addresses(payload: bytes) -> list[str]:
    """Of the gateway, as people write them."""
    if len(payload) % ADDRESS_LEN:
        raise ProtocolError(f"ADDRESSES of {len(payload)} bytes")
    texts = (socket.inet_ntop(socket.AF_INET6, payload[i : i + ADDRESS_LEN])
             for i in range(0, len(payload), ADDRESS_LEN))  # fmt: skip
    return [t.removeprefix("::ffff:") if "." in t else t for t in texts]


def encode_lost(node: int, incarnation: int) -> bytes:
    return _PAIR.pack(node, incarnation)


def decode_lost(payload: bytes) -> tuple[int, int]:
    node, incarnation = _unpack(_PAIR, payload, "LOST")
    if not 0 < node <= 0xFFFF or not incarnation:
        raise ProtocolError("LOST with bad fields")
    return node, incarnation


def decode_line(payload: bytes) -> str:
    """STATUS and ERROR: one printable line."""
    return _line(payload)


def encode_credit(count: int) -> bytes:
    return _U32.pack(count)


def decode_credit(payload: bytes) -> int:
    count = _unpack(_U32, payload, "CREDIT")[0]
    if not 0 < count <= MAX_CREDIT:
        raise ProtocolError(f"CREDIT of {count}")
    return count


def encode_winsize(rows: int, cols: int, xpixel: int = 0, ypixel: int = 0) -> bytes:
    return _WINSIZE.pack(rows, cols, xpixel, ypixel)


def decode_winsize(payload: bytes) -> tuple[int, int, int, int]:
    return _unpack(_WINSIZE, payload, "WINSIZE")


def encode_signal(signo: int) -> bytes:
    return _U32.pack(signo)


def decode_signal(payload: bytes) -> int:
    signo = _unpack(_U32, payload, "SIGNAL")[0]
    if not 0 < signo <= MAX_SIGNAL:
        raise ProtocolError(f"SIGNAL {signo}")
    return signo


def encode_exit(ex: Exit) -> bytes:
    return _EXIT.pack(ex.status, 0, ex.lifetime_ns)


def decode_exit(payload: bytes) -> Exit:
    status, reserved, lifetime_ns = _unpack(_EXIT, payload, "EXIT")
    if reserved or status > 0xFFFF:
        raise ProtocolError("EXIT with bad fields")
    return Exit(status, lifetime_ns)
