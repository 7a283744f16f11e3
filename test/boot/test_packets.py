# SPDX-License-Identifier: MIT
"""The packets of a live node: corner cases of TCP, segment by segment, a flood of SYNs, and
malformed frames.

The card's other end is this process (wire.py). make test-long runs them; PACKET_SECONDS and
PACKET_SEED choose how long, and which, frames come. Another length:

    PACKET_SECONDS=10 PACKET_SEED=7 PYTEST_ADDOPTS=-s make test-boot LONG=1 T=malformed
"""

import os
import random
import struct
import time

import pytest
from boot import Running, wait_for
from tessera_launcher import packages

pytest.importorskip("scapy")
from scapy.layers.inet import ICMP, IP, TCP, UDP  # noqa: E402
from scapy.layers.inet6 import (  # noqa: E402
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RA,
    ICMPv6NDOptPrefixInfo,
    IPv6,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
)
from scapy.layers.l2 import ARP, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402
from wire import HOST, HOST_MAC, NODE, Peer, Wire  # noqa: E402

pytestmark = pytest.mark.long

BUSYBOX = packages.require("busybox")[0]
ALL_NODES_MAC = "33:33:00:00:00:01"
ECHO, ENDS, CLOSED, KEEPS = 7000, 7001, 7002, 7003
OURS = 9000  # where the node's own connections go
SECONDS = float(os.environ.get("PACKET_SECONDS", "600"))
SEED = int(os.environ.get("PACKET_SEED", str(random.SystemRandom().randrange(1 << 32))))
RETRANSMIT_S = 15.0  # within which a lost segment comes again
FORGETS_S = 180.0  # a connection that has ended is known for two minutes
QUIET_S = 1.0  # in which nothing comes that should not
_ports = iter(range(20000, 60000))


@pytest.fixture(scope="module")
def wire(disk):
    """A node with three servers: ECHO sends back what comes, ENDS closes at once, KEEPS never."""
    end = Wire()
    running = Running(("--net", "user"), disk, "packets")
    end.plug(running)
    running.up()
    end.running = running
    for port, *applet in ((ECHO, "cat"), (ENDS, "true"), (KEEPS, "sleep", "100000")):
        running.start([BUSYBOX, "nc", "-ll", "-p", str(port), "-e", BUSYBOX, *applet])
    end.wait_address()
    for port in (ECHO, ENDS, KEEPS):
        wait_for(lambda port=port: listens(end, port))
    yield end
    running.close()
    end.close()
    assert not running.complaints(), "\n".join(running.complaints())


def listens(wire, port):
    peer = Peer(wire, port, next(_ports))
    peer.send("S")
    got = peer.take()
    peer.reset()
    return got is not None and str(got.flags) == "SA"


@pytest.fixture
def peer(wire):
    wire.clear()
    made = Peer(wire, ECHO, next(_ports))
    yield made
    made.reset()


def echoes(wire, text=b"is anybody there?"):
    """A whole connection."""
    peer = Peer(wire, ECHO, next(_ports)).connect()
    peer.send("PA", text)
    assert peer.receive(len(text)) == text
    peer.send("FA")
    ends = None
    while ends is None or "F" not in str(ends.flags):
        ends = peer.take()
        assert ends is not None
    peer.ack += 1
    peer.send("A")


def is_gone(peer):
    """What a segment of a connection that is no more gets: a reset."""
    peer.wire.clear()
    peer.send("A")
    got = peer.take()
    assert got is not None and "R" in str(got.flags) and got.seq == peer.ack % 2**32


def test_a_connection_from_its_first_to_its_last_segment(peer):
    peer.connect()
    peer.send("PA", b"hello")
    assert peer.receive(5) == b"hello"
    peer.send("FA")
    ends = [peer.take()]
    while "F" not in str(ends[-1].flags):
        ends.append(peer.take())
    assert ends[-1].seq == peer.ack and all(e.ack == peer.seq for e in ends)
    peer.ack += 1
    peer.send("A")
    assert peer.wire.pings()


def test_a_segment_that_is_not_confirmed_comes_again(peer):
    peer.connect()
    peer.send("PA", b"lost")
    seen = []
    while len(seen) < 3:
        got = peer.take(RETRANSMIT_S)
        assert got is not None
        if peer.bytes_of(got):
            seen.append((got.seq, peer.bytes_of(got)))
    assert seen == [(peer.ack, b"lost")] * 3
    peer.ack += 4
    peer.send("A")
    peer.wire.clear()
    assert peer.silent(2 * QUIET_S)


def test_segments_out_of_order(peer):
    """The gap is confirmed by the number of its first byte; filled, all of it at once."""
    peer.connect()
    start = peer.seq
    peer.send("PA", b"cc", at=start + 4)
    peer.expect("A", ack=1)
    peer.send("PA", b"bb", at=start + 2)
    peer.expect("A", ack=1)
    peer.send("PA", b"aa", at=start)
    peer.seq = start + 6
    assert peer.receive(6) == b"aabbcc"


def test_segments_that_overlap(peer):
    """Bytes that are there already stay as they came first; old ones are confirmed again."""
    peer.connect()
    start = peer.seq
    peer.send("PA", b"0123456789")
    assert peer.receive(10) == b"0123456789"
    peer.send("PA", b"xxxxxABCDE", at=start + 5)
    peer.seq = start + 15
    assert peer.receive(5) == b"ABCDE"
    peer.wire.clear()
    peer.send("PA", b"yyyyyyyyyy", at=start)  # all of it is old
    got = peer.expect("A", ack=16)
    assert not peer.bytes_of(got)


def test_a_window_of_zero(peer):
    """Nothing but probes until it opens; then all of it."""
    peer.window = 0
    peer.connect()
    peer.send("PA", b"waits")
    end, probes = time.monotonic() + 4 * QUIET_S, []
    while (left := end - time.monotonic()) > 0:
        got = peer.take(left)
        if got is not None and peer.bytes_of(got):
            probes.append(peer.bytes_of(got))
    assert all(p == b"w" for p in probes), probes
    peer.window = 65535
    peer.send("A")
    assert peer.receive(5) == b"waits"


def test_both_close_at_once(wire):
    """The node's FIN crosses ours: each is confirmed by itself, and nothing comes again."""
    peer = Peer(wire, ENDS, next(_ports)).connect()
    got = peer.take()
    while "F" not in str(got.flags):
        got = peer.take()
    peer.send("FA")  # it does not confirm that of the node
    peer.expect("A", seq=got.seq + 1 - peer.node_first, ack=2)
    peer.ack += 1
    peer.send("A")
    wire.clear()
    assert peer.silent(3 * QUIET_S)
    peer.send("FA", at=peer.seq - 1)  # as if its last answer had been lost
    peer.expect("A", ack=2)


def test_a_reset_before_the_handshake_is_over(peer):
    peer.send("S")
    got = peer.expect("SA", ack=1)
    peer.ack = got.seq + 1
    peer.send("R")
    is_gone(peer)
    assert listens(peer.wire, ECHO)


def test_a_reset_ends_a_connection(peer):
    peer.connect()
    peer.send("R")
    is_gone(peer)


def test_a_reset_outside_of_the_window_does_not(peer):
    peer.connect()
    for at in (peer.seq - 1, peer.seq + (1 << 30)):
        peer.send("R", at=at)
    peer.wire.clear()
    peer.send("PA", b"alive")
    assert peer.receive(5) == b"alive"


def test_a_reset_while_the_node_closes(wire):
    """In FIN-WAIT-1, FIN-WAIT-2, CLOSING and LAST-ACK: the connection is forgotten."""
    for state in ("fin-wait-1", "fin-wait-2", "closing"):
        peer = Peer(wire, ENDS, next(_ports)).connect()
        got = peer.take()
        while "F" not in str(got.flags):
            got = peer.take()
        if state == "fin-wait-2":
            peer.ack += 1
            peer.send("A")
        elif state == "closing":
            peer.send("FA")
            peer.expect("A", ack=2)
        wire.clear()
        peer.send("R")
        is_gone(peer)
    peer = Peer(wire, ECHO, next(_ports)).connect()
    peer.send("FA")
    got = peer.take()
    while "F" not in str(got.flags):
        got = peer.take()
    peer.send("R")
    is_gone(peer)


def test_a_reset_while_the_program_has_not_closed(wire):
    """In CLOSE-WAIT: our end has come, the program keeps its own open."""
    peer = Peer(wire, KEEPS, next(_ports)).connect()
    peer.send("FA")
    peer.expect("A", ack=2)
    assert peer.silent(QUIET_S)
    peer.send("R", at=peer.seq - 1)  # not the next byte: ignored, as its FIN is confirmed
    peer.send("A")
    assert peer.silent(QUIET_S)
    peer.send("R")
    is_gone(peer)


def opens(wire):
    """The node begins a connection: the program, and this end of it, which has seen the SYN."""
    wire.clear()
    program, said = wire.running.start([BUSYBOX, "nc", HOST, str(OURS)])
    frame = wire.take(lambda f: TCP in f and f[TCP].dport == OURS)
    assert frame is not None and str(frame[TCP].flags) == "S"
    peer = Peer(wire, frame[TCP].sport, OURS)
    peer.node_first, peer.ack = frame[TCP].seq, frame[TCP].seq + 1
    return program, said, peer


def test_a_reset_of_a_connection_that_the_node_begins(wire):
    """In SYN-SENT only a reset that confirms the SYN counts: the program hears that it was refused.
    """
    program, said, peer = opens(wire)
    peer.send("R")  # without the ACK flag its number means nothing
    peer.send("RA", ack=peer.ack + 1)
    peer.send("RA", ack=peer.ack - 1)
    again = peer.take(RETRANSMIT_S)
    assert again is not None and (str(again.flags), again.seq) == ("S", peer.node_first)
    assert not program.over
    peer.send("RA")
    assert program.wait(time.monotonic() + 60)
    assert b"Connection refused" in said.data[2] and program.exit.status == 1 << 8
    wire.clear()
    assert peer.silent(4 * QUIET_S)


def test_a_reset_does_not_touch_a_listener_or_a_finished_connection(wire):
    stray = Peer(wire, ECHO, next(_ports))
    stray.send("R")
    assert stray.silent(QUIET_S)
    peer = Peer(wire, ENDS, next(_ports)).connect()
    got = peer.take()
    while "F" not in str(got.flags):
        got = peer.take()
    peer.ack += 1
    peer.send("FA")  # the node is in TIME-WAIT then (RFC 1337)
    peer.expect("A", ack=2)
    peer.send("R")
    peer.send("FA", at=peer.seq - 1)
    peer.expect("A", ack=2)
    echoes(wire)


def test_a_port_without_a_listener(wire):
    """RFC 9293: the reset's numbers follow from the segment's."""
    peer = Peer(wire, CLOSED, next(_ports), seq=5000)
    peer.send("S")
    got = peer.take()
    assert (str(got.flags), got.seq, got.ack) == ("RA", 0, 5001)
    peer.send("A", b"abc", ack=77)
    got = peer.take()
    assert "R" in str(got.flags) and got.seq == 77
    peer.send("R")
    assert peer.silent(QUIET_S)


# --- a flood

FLOOD = 20_000
FLOOD_BYTES = 2 << 20  # of the stack's memory that it may take at most


def test_a_flood_of_syns(wire):
    """Of sources that never answer: what they take is bounded and comes back; another listener, and
    pings, are served all the time, and then the one that was flooded.
    """
    print(f"PACKET_SEED={SEED}", flush=True)
    rng = random.Random(SEED)
    gauge = lambda: wire.running.stats()["p0"]["tcpip.memory"]  # noqa: E731
    echoes(wire)
    before, most = gauge(), 0
    ether = Ether(src=HOST_MAC, dst=wire.mac)
    for i in range(FLOOD):
        source = f"{rng.randrange(11, 127)}.{rng.randrange(256)}.{rng.randrange(256)}.9"
        ip = IP(src=source, dst=NODE)
        wire.send(ether / ip / TCP(sport=rng.randrange(1, 65536), dport=ECHO, flags="S",
                                   seq=rng.randrange(1 << 32), window=65535,
                                   options=[("MSS", 1460)]))  # fmt: skip
        if i % 500 == 499:
            most = max(most, gauge())
            wire.clear()
            assert wire.pings(), f"no answer after {i + 1}"
        if i % 2000 == 1999:
            ends = Peer(wire, ENDS, next(_ports)).connect()
            got = ends.take()
            assert got is not None and "F" in str(got.flags)
            ends.reset()
    print(f"tcpip.memory was {before} bytes, {most} at most", flush=True)
    assert most - before < FLOOD_BYTES
    assert wire.running.stats()["p0"]["tcpip.no_memory"] == 0
    echoes(wire, b"after the flood")
    wait_for(lambda: gauge() <= before, FORGETS_S)


# --- malformed frames


def whole(rng, mac):
    """A frame that a node looks into, most of them for its servers."""
    ether = Ether(src=HOST_MAC, dst=rng.choice([mac] * 3 + ["ff:ff:ff:ff:ff:ff", ALL_NODES_MAC]))
    data = Raw(rng.randbytes(rng.choice([0, 1, 7, 64, 500, 1400])))
    ip = IP(src=HOST, dst=NODE, ttl=rng.choice([0, 1, 64]), id=rng.randrange(4),
            flags=rng.choice(["", "", "", "MF", "DF"]),
            frag=rng.choice([0, 0, 0, 1, 185, 8000]))  # fmt: skip
    six = IPv6(src="fe80::2", dst=rng.choice(["fe80::1", "ff02::1", "::1"]))
    tcp = TCP(sport=rng.randrange(1, 65536), dport=rng.choice([ECHO, ENDS, CLOSED, 1]),
              flags=rng.randrange(256), seq=rng.randrange(1 << 32), ack=rng.randrange(1 << 32),
              window=rng.choice([0, 1, 65535]), urgptr=rng.randrange(9),
              options=rng.choice([[], [("MSS", rng.randrange(65536))], [("Timestamp", (1, 2))],
                                  [("WScale", rng.randrange(256))], [("SAckOK", b"")]]))
    udp = UDP(sport=rng.choice([53, 67, 547, 9]), dport=rng.choice([9, 53, 68, 5353, 40000]))
    arp = ARP(op=rng.randrange(4), hwsrc=HOST_MAC, psrc=HOST, pdst=rng.choice([NODE, HOST]))
    part = IPv6ExtHdrFragment(offset=rng.randrange(100), m=rng.randrange(2), id=1)
    router = ICMPv6ND_RA() / ICMPv6NDOptPrefixInfo(prefix="2001:db8::", prefixlen=64)
    return rng.choice([
        lambda: ether / arp,
        lambda: ether / ip / tcp / data,
        lambda: ether / ip / tcp / data,
        lambda: ether / ip / udp / data,
        lambda: ether / ip / ICMP(type=rng.randrange(20), code=rng.randrange(16)) / data,
        lambda: ether / ip / ICMP(type=rng.choice([3, 11, 12])) / IP(src=NODE, dst=HOST) / tcp,
        lambda: ether / six / ICMPv6EchoRequest(data=bytes(data)),
        lambda: ether / six / rng.choice([ICMPv6ND_NS, ICMPv6ND_NA])(tgt="fe80::1"),
        lambda: ether / six / router,
        lambda: ether / six / part / data,
        lambda: ether / six / IPv6ExtHdrHopByHop() / tcp / data,
        lambda: ether / six / tcp / data,
        lambda: ether / six / udp / data,
        lambda: ether / data,
    ])()  # fmt: skip


def spoil(rng, data):
    """A few bytes are others, or missing, or too many; the card's minimum is kept by chance."""
    data = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 2, 8])):
        at = rng.randrange(min(len(data), rng.choice([20, 60, 1500])))
        data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    how = rng.randrange(6)
    if how == 0 and len(data) > 14:
        del data[rng.randrange(14, len(data)) :]
    elif how == 1:
        data += rng.randbytes(rng.randrange(1, 200))
    data = data[:1514]
    if rng.randrange(2):
        mend(data)
    return bytes(data)


def checksum(data):
    if len(data) % 2:
        data = data + b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mend(data):
    """The checksums of IPv4 and of what it carries are right again, so the node looks further."""
    ihl = (data[14] & 15) * 4 if len(data) >= 34 and data[12:14] == b"\x08\x00" else 0
    if ihl < 20 or len(data) < 14 + ihl:
        return
    data[24:26] = b"\0\0"
    struct.pack_into("!H", data, 24, checksum(data[14 : 14 + ihl]))
    end = min(len(data), 14 + int.from_bytes(data[16:18], "big"))
    at = {1: 2, 6: 16, 17: 6}.get(data[23])
    if at is None or end < 14 + ihl + at + 2:
        return
    pseudo = bytes(data[26:34]) + struct.pack("!HH", data[23], end - 14 - ihl)
    struct.pack_into("!H", data, 14 + ihl + at, 0)
    sum_of = checksum((b"" if data[23] == 1 else pseudo) + bytes(data[14 + ihl : end]))
    struct.pack_into("!H", data, 14 + ihl + at, sum_of)


def test_malformed_frames(wire):
    """The node serves all the time and afterwards, and its stack never lacks memory."""
    print(f"PACKET_SEED={SEED} PACKET_SECONDS={SECONDS:g}", flush=True)
    rng = random.Random(SEED)
    echoes(wire)
    before = wire.running.stats()["p0"]["tcpip.memory"]
    end, sent = time.monotonic() + SECONDS, 0
    frames = [bytes(whole(rng, wire.mac)) for _ in range(200)]
    while time.monotonic() < end:
        for _ in range(200):
            wire.send(spoil(rng, rng.choice(frames)))
            sent += 1
        for _ in range(10):  # making a new one takes long
            frames[rng.randrange(len(frames))] = bytes(whole(rng, wire.mac))
        wire.clear()
        assert wire.pings(), f"no answer after {sent} frames of seed {SEED}"
        if sent % 2000 == 0:
            echoes(wire, b"after %d frames" % sent)
        assert wire.running.alive, wire.running.cluster.failure
    print(f"{sent} frames", flush=True)
    echoes(wire)
    stats = wire.running.stats()["p0"]
    print(f"tcpip.memory was {before} bytes, and is {stats['tcpip.memory']}", flush=True)
    assert stats["tcpip.no_memory"] == 0
    # All that the frames have left comes to its end: handshakes, fragments, connections.
    wait_for(lambda: wire.running.stats()["p0"]["tcpip.memory"] <= before, FORGETS_S)
