# SPDX-License-Identifier: MIT
"""Reads a capture of the HCA model: do the connections in it carry what their management agreed
on?
"""

from __future__ import annotations

import dataclasses
import pathlib
import struct

MAGIC_NS, ETHERNET, ROCE = 0xA1B23C4D, 1, 4791
READ_REQUEST, READ_REPLIES, ACK, ATOMIC_ACK, ATOMICS = 12, range(13, 17), 17, 18, (19, 20)
REQUESTS = (*range(READ_REQUEST + 1), *ATOMICS)
MIDDLES = (0, 1, 6, 7)  # of messages of several packets: all but the last
UD_SEND = 0x64
CM_CLASS, CM_REQ, CM_REP = 7, 0x10, 0x13
PSN = 0xFFFFFF


@dataclasses.dataclass
class Packet:
    source: int  # LID
    target: int
    opcode: int
    qpn: int  # of the target
    psn: int
    body: bytes  # behind the BTH, with padding and the invariant CRC


def frames(path: pathlib.Path):
    data = path.read_bytes()
    magic, kind = struct.unpack_from("<I16xI", data)
    assert (magic, kind) == (MAGIC_NS, ETHERNET)
    at = 24
    while at < len(data):
        length, whole = struct.unpack_from("<8xII", data, at)
        assert length == whole and at + 16 + length <= len(data)
        yield data[at + 16 : at + 16 + length]
        at += 16 + length


def packet(frame: bytes) -> Packet:
    kind, version, proto, source, target = struct.unpack_from(">12xHB8xB4xHxxH", frame)
    port, opcode, qpn, psn = struct.unpack_from(">36xH4xB3xII", frame)
    assert (kind, version, proto, port) == (0x0800, 0x45, 17, ROCE), frame[:54].hex()
    return Packet(source, target, opcode, qpn & PSN, psn & PSN, frame[54:])


class Connections:
    """Follows packets in their order. The next PSN of each direction of each connection is known
    from its REQ and REP.
    """

    def __init__(self):
        self.asked = {}  # LID and id of who asked: QPN, PSN
        self.made = set()
        self.next = {}  # source LID, target LID, target QPN: PSN
        self.back = {}  # the same of the other direction
        self.messages = self.answers = self.datagrams = 0

    def take(self, p: Packet):
        if p.opcode == UD_SEND:
            self.datagrams += 1
            mad = p.body[8:]
            if p.qpn == 1 and mad[:2] == bytes((1, CM_CLASS)):
                self.manage(p, mad)
        elif p.opcode in REQUESTS:
            flow = p.source, p.target, p.qpn
            assert flow in self.next, f"nobody agreed on {p}"
            assert p.psn == self.next[flow], (p, self.next[flow])
            self.next[flow] = p.psn + 1 & PSN
            self.messages += p.opcode not in MIDDLES
        else:
            assert p.opcode in (*READ_REPLIES, ACK, ATOMIC_ACK), p
            asked = self.back[p.source, p.target, p.qpn]
            # a request to read takes as many numbers as it has answers
            if p.opcode in READ_REPLIES:
                assert (p.psn + 1 - self.next[asked] & PSN) <= 1, (p, self.next[asked])
                self.next[asked] = p.psn + 1 & PSN
            self.answers += 1

    def manage(self, p: Packet, mad: bytes):
        attribute, mine, yours = struct.unpack_from(">16xH6xII", mad)
        word = lambda at: struct.unpack_from(">I", mad, 24 + at)[0] >> 8  # noqa: E731
        if attribute == CM_REQ:
            self.asked[p.source, mine] = word(32), word(44)
        elif attribute == CM_REP and (p.source, mine) not in self.made:
            self.made.add((p.source, mine))
            qpn, psn = self.asked[p.target, yours]
            to, fro = (p.target, p.source, word(12)), (p.source, p.target, qpn)
            # each side names the number with which the other begins
            self.next |= {to: word(20), fro: psn}
            self.back |= {to: fro, fro: to}


def follow(path: pathlib.Path) -> Connections:
    connections = Connections()
    for frame in frames(path):
        connections.take(packet(frame))
    return connections
