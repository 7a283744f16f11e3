# SPDX-License-Identifier: MIT
"""Linux as the reference for the HCA model: a stock Debian kernel's mlx4 driver and RDMA tools run
on it.
"""
import contextlib
import os
import re
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test"))

from reference import cluster, image, packages  # noqa: E402

OUT = Path(os.environ.get("O", ROOT / "build")).resolve()
MODEL = OUT / "tools" / "hca" / "tessera-hca"
BOOT_LIMIT = 120  # seconds; 5 on a quiet machine

# A hundred seconds, for a model that changes seldom.
pytestmark = pytest.mark.long

long_test = pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="part of make test-long")


@contextlib.contextmanager
def two_guests(work, *options):
    """Two Linux guests on one model."""
    if not MODEL.exists():
        pytest.fail(f"{MODEL} is not built: make tools")
    try:
        kernel, initrd = image.build(OUT / "reference" / "packages", OUT / "reference" / "image")
    except packages.PackageError as err:
        pytest.fail(f"the reference guests' packages cannot be had: {err}")
    with cluster.Cluster(MODEL, kernel, initrd, work, model_args=options) as c:
        c.wait_ready(BOOT_LIMIT)
        yield c
        assert c.model.poll() is None, "the model ended by itself"


@pytest.fixture(scope="module")
def guests(tmp_path_factory):
    with two_guests(tmp_path_factory.mktemp("reference")) as c:
        yield c


def port(guests, lid):
    """The model's counters of one port."""
    return next(p for p in guests.stats()["ports"] if p["lid"] == lid)


def check_pair(guests, command, timeout=60):
    """Run a two-sided test; return what server and client printed."""
    server, client = guests.pair(command, timeout)
    assert client[0] == 0, f"client: {client[1]}\nserver: {server[1]}"
    assert server[0] == 0, f"server: {server[1]}"
    return server[1], client[1]


def typical(text):
    """The t_typical column of a perftest latency table."""
    row = re.search(r"^\s*\d+\s+\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", text, re.M)
    return float(row.group(3))


# Linux's view of the model's QUERY_DEV_CAP and QUERY_PORT: no windows, TSO or RSS.
ATTRIBUTES = {
    "fw_ver": "2.42.5000", "phys_port_cnt": "1", "atomic_cap": "ATOMIC_HCA (1)", "max_mw": "0",
    "max_qp_wr": "16351", "max_sge": "32", "max_cqe": "65535", "max_qp_rd_atom": "16",
    "max_srq_wr": "16383", "max_tso": "0", "sm_lid": "49151", "max_mtu": "4096 (5)",
    "max_msg_sz": "0x40000000", "pkey_tbl_len": "16", "gid_tbl_len": "8",
    "active_width": "4X (2)", "phys_state": "LINK_UP (5)",
}


def test_port_is_active(guests):
    for i in range(2):
        status, text = guests[i].run("ibv_devinfo -v")
        assert status == 0, text
        assert re.search(r"state:\s+PORT_ACTIVE", text), text
        assert re.search(r"vendor_part_id:\s+4099", text), text
        assert re.search(rf"port_lid:\s+{i + 1}\b", text), text
        assert re.search(r"active_mtu:\s+4096", text), text
        assert re.search(r"link_layer:\s+InfiniBand", text), text
        for attribute, want in ATTRIBUTES.items():
            found = re.search(rf"^\s*{attribute}:\s+(.*)$", text, re.M)
            assert found and found[1].strip() == want, (attribute, found and found[1])


def test_drivers_load_without_complaint(guests):
    for guest in guests.guests:
        _, text = guest.run("dmesg")
        bad = [line for line in text.splitlines()
               if re.search(r"mlx4|ib_|infiniband", line)
               and re.search(r"fail|error|warn|timed out|unable", line, re.I)]
        assert not bad
    assert all(p["command_errors"] == 0 for p in guests.stats()["ports"])


def test_rc_pingpong_checks_data(guests):
    before = port(guests, 1)["sends"]
    check_pair(guests, "ibv_rc_pingpong -c -n 300")
    assert port(guests, 1)["sends"] - before == 300


def test_rc_pingpong_by_events(guests):
    before = port(guests, 1)["interrupts"]
    check_pair(guests, "ibv_rc_pingpong -c -e -n 100")
    assert port(guests, 1)["interrupts"] > before


def test_ud_pingpong_checks_data(guests):
    check_pair(guests, "ibv_ud_pingpong -c -n 50 -s 1024")


@pytest.mark.parametrize("command,counter,least", [
    ("ib_send_lat -n 200", "sends", 200), ("ib_write_lat -n 200", "writes", 200),
    ("ib_read_lat -n 200", "reads", 200), ("ib_atomic_lat -n 200", "atomics", 200),
    ("ib_write_bw -s 65536 -n 100", "writes", 100), ("ib_read_bw -s 65536 -n 100", "reads", 100)])
def test_perftest_in_short(guests, command, counter, least):
    """
    The client is guest 1, whose LID is 2; what it says it did is what crossed. Latencies are in
    cycles: for microseconds perftest measures the clock first, and prints nan on a host that is
    too busy for it.
    """
    before = port(guests, 2)[counter]
    latency = "_lat" in command
    _, text = check_pair(guests, command + (" -C" if latency else ""))
    assert not latency or typical(text) > 0
    assert port(guests, 2)[counter] - before >= least


def test_management_reaches_the_other_port(guests):
    status, text = guests[0].run("smpquery nodeinfo 2")
    assert status == 0 and "Channel Adapter" in text, text
    status, text = guests[0].run("smpquery -D nodeinfo 0,1")
    assert status == 0 and "Switch" in text, text
    status, text = guests[0].run("smpquery -D nodeinfo 0,1,2")
    assert status == 0 and "Channel Adapter" in text, text
    status, text = guests[0].run("perfquery 2 1")
    assert status == 0 and "PortXmitData" in text, text


def test_link_goes_down_and_comes_back(guests):
    def wait_state(want):
        for _ in range(100):
            text = guests[1].run("ibv_devinfo")[1]
            if re.search(rf"state:\s+{want}", text):
                return
            time.sleep(0.05)
        pytest.fail(f"port of guest 1 is not {want}: {text}")

    assert guests.command("link 2 down")["ok"]
    wait_state("PORT_DOWN")
    assert guests.command("link 2 up")["ok"]
    wait_state("PORT_ACTIVE")
    assert guests.stats()["injected"]["link_changes"] == 2
    check_pair(guests, "ibv_rc_pingpong -c -n 50")


def test_delayed_messages_arrive_late_and_whole(guests):
    """Ten round trips, each way 20 ms."""
    def seconds():
        _, text = check_pair(guests, "ibv_rc_pingpong -c -n 10")
        return float(re.search(r"10 iters in ([\d.]+) seconds", text).group(1))

    before = guests.stats()["injected"]["delayed"]
    assert guests.command("delay 1-2 20")["ok"]
    try:
        assert seconds() >= 0.36
    finally:
        guests.command("delay off")
    assert guests.stats()["injected"]["delayed"] - before == 20


def test_cut_link_ends_in_retry_exceeded(guests):
    """A node that has a message under way is told; the other may wait for ever."""
    command = "(ibv_rc_pingpong -n 100000000 {} >/tmp/cut 2>&1; echo $? >>/tmp/cut) &"
    try:
        guests[0].run(command.format(""))
        guests[0].run("until grep -q ':4853 [^ ]* 0A' /proc/net/tcp /proc/net/tcp6;"
                      " do usleep 20000; done")
        before = port(guests, 1)["sends"]
        guests[1].run(command.format(guests[0].ip))
        for _ in range(1000):
            if port(guests, 1)["sends"] > before + 100:
                break
            time.sleep(0.02)
        guests.command("link 1 down")
        for _ in range(600):
            text = "".join(guest.run("cat /tmp/cut")[1] for guest in guests.guests)
            if "Failed status" in text:
                break
            time.sleep(0.1)
    finally:
        guests.command("link 1 up")
        for guest in guests.guests:
            guest.run("killall ibv_rc_pingpong; true")
    assert "transport retry counter exceeded" in text, text
    assert port(guests, 1)["retries"] + port(guests, 2)["retries"] > 0


def test_broken_connection_is_reported(guests):
    guests.command("break random every 100 7")
    try:
        server, client = guests.pair("ibv_rc_pingpong -n 1000000")
    finally:
        guests.command("break random off")
    assert client[0] != 0 and server[0] != 0
    both = server[1] + client[1]
    assert "transport retry counter exceeded" in both or "Work Request Flushed" in both, both
    assert guests.stats()["injected"]["breaks"] > 0


@pytest.fixture(scope="module")
def node(guests, tmp_path_factory):
    """A Tessera node on the same model; its port's GID."""
    n = cluster.Node(guests, OUT / "memory" / "kernel.elf", tmp_path_factory.mktemp("node"), 3,
                     "node=3 rdma.selftest=serve")
    try:
        n.wait_log("selftest: serving")
        guid = port(guests, 3)["guid"]
        n.gid = "fe80::" + ":".join(re.findall("....", guid.removeprefix("0x").zfill(16)))
        yield n
        assert not re.search(r"panic|BUG:|UBSAN|lock order", n.log()), n.log()
    finally:
        n.stop()


KINDS = ["connect", "send", "write", "read", "atomics", "node_write", "node_read", "node_atomics",
         "datagrams", "bad_key"]


def check_peer(guests, node, rounds, most, timeout=60):
    deadline = time.monotonic() + 30
    while True:
        status, text = guests[0].run(f"peer {node.gid} {rounds} {most}", timeout)
        # Linux may have missed that the port came up; the next sweep tells it.
        if "resolve address: last error No such device" not in text or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert status == 0, text + node.log()[-1500:]
    assert text.splitlines() == [f"ok {kind}" for kind in KINDS]


def test_linux_and_tessera(guests, node):
    """Linux's connection manager and verbs on one side, Tessera's on the other; all data is
    checked.
    """
    before = port(guests, 1), port(guests, 3)
    check_peer(guests, node, 20, 65536)
    after = port(guests, 1), port(guests, 3)
    for old, new in zip(before, after):
        for counter in ("sends", "writes", "reads", "atomics", "datagrams"):
            assert new[counter] - old[counter] >= 20, counter
    assert after[0]["writes_imm"] - before[0]["writes_imm"] == 20


@long_test
def test_linux_and_tessera_for_long(guests, node):
    """Every length up to the page boundaries' neighbours, and many connections one after the
    other.
    """
    check_peer(guests, node, 3000, 65536, timeout=300)
    for most in [*range(4090, 4103), *range(8186, 8199), 65535]:
        check_peer(guests, node, 2, most)


@long_test
@pytest.mark.parametrize("command", [  # the longer forms, and other kinds
    "ibv_uc_pingpong -n 1000", "ibv_srq_pingpong -c -n 1000", "ibv_rc_pingpong -c -s 1000000 -n 50",
    "ib_send_lat -n 1000", "ib_send_lat -c UD -n 1000", "ib_send_lat -e -n 500",
    "ib_read_lat -n 1000", "ib_atomic_lat -n 1000", "ib_atomic_lat -A CMP_AND_SWAP -n 1000",
    "ib_write_lat -s 4096 -n 1000", "ib_write_bw -s 65536 -n 1000", "ib_write_bw -a -n 200",
    "ib_read_bw -s 65536 -n 1000", "ib_send_bw -s 4096 -n 1000", "ib_send_bw -q 8 -s 65536 -n 500",
    "ib_write_bw -b -s 65536 -n 500", "ib_write_bw -s 8388608 -n 50"])
def test_perftest(guests, command):
    check_pair(guests, command, timeout=180)


@long_test
def test_connection_manager_and_ipoib(guests):
    """rdma_cm needs IPoIB (multicast), the SA's path records and CM messages on QP1."""
    for i in range(2):
        status, text = guests[i].run(f"ifconfig ib0 10.10.0.{i + 1} netmask 255.255.255.0 up")
        assert status == 0, text
    status, text = guests[1].run(
        "for i in $(seq 20); do ping -c 1 -W 1 10.10.0.1 && exit 0; done; exit 1")
    assert status == 0, text
    guests[0].run("(rping -s -a 10.10.0.1 -C 500 -V -S 60000 >/tmp/rping 2>&1;"
                  " echo $? >/tmp/rping.status) &")
    time.sleep(1)
    status, text = guests[1].run("rping -c -a 10.10.0.1 -C 500 -V -S 60000", timeout=120)
    server = guests[0].run("cat /tmp/rping /tmp/rping.status")[1]
    assert status == 0, text + server
    status, text = guests[1].run("sminfo")
    assert status == 0 and "SMINFO_MASTER" in text, text


@long_test
def test_libmlx4_takes_blueflame(tmp_path):
    """Short messages go inline and by BlueFlame, longer ones by a plain doorbell; all of it
    arrives.
    """
    with two_guests(tmp_path, "--blueflame") as pair:
        check_pair(pair, "ibv_rc_pingpong -c -n 100")
        before = port(pair, 2)
        check_pair(pair, "ib_write_lat -s 64 -I 128 -n 200")
        check_pair(pair, "ib_write_lat -s 4096 -n 200")
        after = port(pair, 2)
        assert 200 <= after["blueflames"] - before["blueflames"] < 250
        assert after["doorbells"] - before["doorbells"] >= 400
        assert all(p["bad_blueflames"] == 0 for p in pair.stats()["ports"])


@long_test
def test_unload_and_reload(guests):
    status, text = guests[1].run(
        "for m in ib_ipoib rdma_ucm ib_umad mlx4_ib mlx4_core; do rmmod $m || exit 1; done;"
        "for m in mlx4_core mlx4_ib ib_umad rdma_ucm; do insmod /lib/mods/$m.ko || exit 1; done;"
        "for i in $(seq 100); do ibv_devinfo | grep -q PORT_ACTIVE && exit 0; usleep 50000; done;"
        "exit 1", timeout=120)
    assert status == 0, text
    check_pair(guests, "ibv_rc_pingpong -c -n 200")


def test_death_of_one_guest_leaves_the_other(guests):
    """Last of all: guest 1 is gone afterwards."""
    guests[1].stop()
    for _ in range(200):
        if port(guests, 2)["state"] == "DOWN":
            break
        time.sleep(0.02)
    assert port(guests, 2)["state"] == "DOWN"
    status, text = guests[0].run("ibv_devinfo")
    assert status == 0 and "PORT_ACTIVE" in text, text
    status, text = guests[0].run("smpquery -t 200 nodeinfo 2")
    assert status != 0, text
