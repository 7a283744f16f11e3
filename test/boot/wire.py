# SPDX-License-Identifier: MIT
"""The other end of a network card: frames, as a program of the test writes and reads them.

QEMU's dgram backend sends each frame of the card as a datagram to a socket of ours, without any
privileges. A thread here answers ARP and DHCP, so that the node has its usual address; all other
frames wait in a list.
"""

from __future__ import annotations

import collections
import os
import socket
import tempfile
import threading
import time

from boot import Running
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

NODE, HOST = "10.0.2.15", "10.0.2.2"
HOST_MAC = "02:00:00:00:00:01"
WAIT_S = 60.0
KEPT = 4096  # frames that nobody has asked for


class Wire:
    def __init__(self) -> None:
        self.dir = tempfile.TemporaryDirectory(prefix="wire-")
        self.path = os.path.join(self.dir.name, "host")
        self.nic = os.path.join(self.dir.name, "nic")
        self.mac = ""  # of the node, once it has asked for an address
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._sock.bind(self.path)
        self._frames: collections.deque[bytes] = collections.deque(maxlen=KEPT)
        self._cond = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def plug(self, running: Running) -> None:
        """The card of the first processor, before it starts."""
        ours = (f"dgram,id=net0,local.type=unix,local.path={self.nic}"
                f",remote.type=unix,remote.path={self.path}")  # fmt: skip
        for command in running.cluster.plan.commands:
            if command.name == "p0":
                assert command.argv.count("user,id=net0") == 1
                command.argv = [ours if w == "user,id=net0" else w for w in command.argv]

    def close(self) -> None:
        self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._sock.close()
        self.dir.cleanup()

    def send(self, frame: Packet | bytes) -> None:
        """QEMU may be slow to read: then this waits."""
        self._sock.sendto(bytes(frame), self.nic)

    def to_node(self, packet: Packet) -> None:
        self.send(Ether(src=HOST_MAC, dst=self.mac) / packet)

    def take(self, wanted, limit: float = WAIT_S) -> Packet | None:
        """The next frame of which wanted(frame) is true; what comes before it is dropped. None: it
        has not come in time.
        """
        end = time.monotonic() + limit
        while True:
            with self._cond:
                if not self._cond.wait_for(lambda: self._frames, end - time.monotonic()):
                    return None
                data = self._frames.popleft()
            frame = Ether(data)
            if wanted(frame):
                return frame

    def clear(self) -> None:
        with self._cond:
            self._frames.clear()

    def wait_address(self) -> None:
        end = time.monotonic() + WAIT_S
        while not self.pings(0.5):
            assert time.monotonic() < end, "the node has not taken its address"

    def pings(self, limit: float = 10.0) -> bool:
        """Does the node answer an echo request?"""
        if not self.mac:
            time.sleep(limit)
            return False
        text = os.urandom(16)
        self.to_node(IP(src=HOST, dst=NODE) / ICMP(id=1) / Raw(text))

        def answers(frame: Packet) -> bool:
            return (ICMP in frame and frame[ICMP].type == 0
                    and bytes(frame[ICMP].payload)[: len(text)] == text)  # fmt: skip

        return self.take(answers, limit) is not None

    def _read(self) -> None:
        while data := self._sock.recv(1 << 17):
            if not self._serve(data):
                with self._cond:
                    self._frames.append(data)
                    self._cond.notify()

    def _serve(self, data: bytes) -> bool:
        """ARP and DHCP; True: that was it."""
        kind = data[12:14]
        if kind == b"\x08\x06":
            asked = Ether(data)[ARP]
            if asked.op == 1 and asked.pdst == HOST:
                self.send(Ether(src=HOST_MAC, dst=asked.hwsrc)
                          / ARP(op=2, hwsrc=HOST_MAC, psrc=HOST, hwdst=asked.hwsrc,
                                pdst=asked.psrc))  # fmt: skip
            return True
        if kind != b"\x08\x00" or data[23:24] != b"\x11" or data[36:38] != b"\x00\x43":
            return False
        frame = Ether(data)
        if DHCP in frame:
            self.mac = frame.src
            step = dict(o for o in frame[DHCP].options if isinstance(o, tuple))["message-type"]
            answer = {1: "offer", 3: "ack"}.get(step)
            if answer:
                self.send(_dhcp(frame, answer))
        return True


def _dhcp(asked: Packet, answer: str) -> Packet:
    options = [("message-type", answer), ("server_id", HOST), ("lease_time", 86400),
               ("subnet_mask", "255.255.255.0"), ("router", HOST), "end"]  # fmt: skip
    return (Ether(src=HOST_MAC, dst=asked.src) / IP(src=HOST, dst=NODE) / UDP(sport=67, dport=68)
            / BOOTP(op=2, xid=asked[BOOTP].xid, yiaddr=NODE, siaddr=HOST,
                    chaddr=asked[BOOTP].chaddr) / DHCP(options=options))  # fmt: skip


class Peer:
    """One end of a TCP connection, by hand: what it sends and what it expects, segment by segment.
    It confirms nothing by itself.
    """

    def __init__(self, wire: Wire, port: int, own: int, seq: int = 1000, window: int = 65535):
        self.wire, self.port, self.own, self.window = wire, port, own, window
        self.first = self.seq = seq
        self.ack = 0
        self.node_first = 0

    def send(self, flags: str, data: bytes = b"", *, at: int | None = None,
             ack: int | None = None, options=()) -> None:  # fmt: skip
        """@at: the sequence number of the first byte, else the next one, which then moves on."""
        seq = self.seq if at is None else at
        tcp = TCP(sport=self.own, dport=self.port, flags=flags, seq=seq % 2**32,
                  ack=(self.ack if ack is None else ack) % 2**32,
                  window=self.window, options=list(options))  # fmt: skip
        self.wire.to_node(IP(src=HOST, dst=NODE) / tcp / Raw(data))
        if at is None:
            self.seq += len(data) + ("S" in flags) + ("F" in flags)

    def take(self, limit: float = WAIT_S) -> TCP | None:
        def mine(frame: Packet) -> bool:
            return TCP in frame and (frame[TCP].sport, frame[TCP].dport) == (self.port, self.own)

        frame = self.wire.take(mine, limit)
        return frame and frame[TCP]

    def expect(self, flags: str, *, seq: int | None = None, ack: int | None = None,
               data: bytes | None = None, limit: float = WAIT_S) -> TCP:  # fmt: skip
        """The next segment is this one; @seq and @ack count from the node's and from our first."""
        got = self.take(limit)
        assert got is not None, f"no {flags}"
        said = (str(got.flags), got.seq - self.node_first if seq is not None else None,
                got.ack - self.first if ack is not None else None,
                self.bytes_of(got) if data is not None else None)  # fmt: skip
        assert said == (flags, seq, ack, data), got.summary()
        return got

    @staticmethod
    def bytes_of(got: TCP) -> bytes:
        return bytes(got.payload)[: got.underlayer.len - 4 * got.underlayer.ihl - 4 * got.dataofs]

    def silent(self, seconds: float) -> bool:
        return self.take(seconds) is None

    def connect(self, options=()) -> Peer:
        """The SYN comes again each second, as the backlog may be full of half-open ones."""
        end, got = time.monotonic() + WAIT_S, None
        while got is None:
            assert time.monotonic() < end, "no answer to the SYN"
            self.seq = self.first
            self.send("S", options=options)
            got = self.take(1.0)
        assert (str(got.flags), got.ack - self.first) == ("SA", 1), got.summary()
        self.node_first, self.ack = got.seq, got.seq + 1
        self.send("A")
        return self

    def receive(self, nr: int) -> bytes:
        """So many bytes, confirmed as they come."""
        out = b""
        while len(out) < nr:
            got = self.take()
            assert got is not None and "R" not in str(got.flags), f"{len(out)} bytes, then {got!r}"
            data = self.bytes_of(got)
            if data and got.seq == self.ack % 2**32:
                self.ack += len(data)
                out += data
                self.send("A")
        return out

    def reset(self) -> None:
        self.send("R")
