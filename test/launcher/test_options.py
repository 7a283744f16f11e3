# SPDX-License-Identifier: MIT
"""The command line: what it means, what it refuses, and the command lines that come out."""

import os
import re
import socket
import subprocess

import pytest
from conftest import ROOT
from tessera_launcher import accel, account, cluster, fabric, host, plan
from tessera_launcher.disk import Disk
from tessera_launcher.errors import LaunchError, UsageError
from tessera_launcher.options import (Options, format_size, parse_exec, parse_run, parse_size,
                                      parse_up)  # fmt: skip


def make(o: Options) -> plan.Plan:
    return plan.make_plan(o, qemu="qemu", hca="hca", accel="tcg", build_dir="/b", log_dir="/l",
                          run_dir="/r", disk=Disk("/r/root.img"),
                          choice=fabric.Choice("mpqemu", "test"))  # fmt: skip


def commands(*args: str) -> dict[str, str]:
    return {c.name: c.text() for c in make(parse_run([*args, "prog"])).commands}


@pytest.mark.parametrize(
    "text, size", [("4096", 4096), ("8M", 8 << 20), ("1g", 1 << 30), ("2MiB", 2 << 20)]
)
def test_sizes(text, size):
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


def test_program_and_its_own_options_are_left_alone():
    o = parse_run(["--excache", "8M", "--vregion=2M", "prog", "--excache", "--", "-x"])
    assert (o.program, o.args) == ("prog", ["--excache", "--", "-x"])
    assert (o.excache, o.vregion) == (8 << 20, 2 << 20)
    o = parse_run(["--env", "A=b", "--", "-prog", "--", "x"])
    assert (o.program, o.args, o.env) == ("-prog", ["--", "x"], ["A=b"])


@pytest.mark.parametrize("argv, text", [
    ([], "which program"),
    (["--nonsense", "p"], "unrecognized"),
    (["--exc", "8M", "p"], "unrecognized"),
    (["--memories", "0", "p"], "from 1 to"),
    (["--memories", "x", "p"], "not a number"),
    (["--processors", "2", "p", ":::"], "program is missing"),
    (["--processors", "2", "-t", "p", ":::", "q"], "for one program"),
    (["--storages", "2", "p"], "of a --mount: 1 here"),
    (["--mount", "/a", "p"], "wants /DIR=IMAGE"),
    (["--mount", "a=/etc/passwd", "p"], "wants /DIR=IMAGE"),
    (["--mount", "/a=:ro", "p"], "wants /DIR=IMAGE"),
    (["--mount", "/a=/etc", "p"], "/etc is not a file"),
    (["--mount", "/=/etc/passwd", "p"], "2 to 255 letters"),
    (["--mount", "/a b=/etc/passwd", "p"], "without blanks"),
    (["--mount", "/a,b=/etc/passwd", "p"], "without blanks"),
    (["--mount", "/a/../b=/etc/passwd", "p"], "nothing can be mounted at"),
    (["--mount", "/proc/x=/etc/passwd", "p"], "nothing can be mounted at"),
    (["--mount", "/a=/etc/passwd", "--mount", "//a/=/etc/group:ro", "p"], "/a is there twice"),
    (["--mount", "/a=/etc/passwd", "--writable", "--output", "/a/b:x", "p"], "./tessera cp"),
    (["--mount", "/a=/etc/passwd", "--sweep", "50", "p"], "does not go with --mount"),
    (["--cpus", "processor=0", "p"], "from 1 to"),
    (["--fabric", "roce", "p"], "still to come"),
    (["--memory", "gpu=1G", "p"], "neither a role"),
    (["--memory", "memory", "p"], "ROLE=VALUE"),
    (["--memory", "memory=1K", "p"], "whole number of MiB"),
    (["--excache", "1K", "p"], "less than"),
    (["--excache", "lots", "p"], "not a size"),
    (["--vregion", "3M", "p"], "power of two"),
    (["--vregion", "2G", "p"], "power of two"),
    (["--rootfs", "/nonexistent", "p"], "not a directory"),
    (["--disk", "/nonexistent", "p"], "not a file"),
    (["--rootfs", "/", "--disk", "/x", "p"], "exclude"),
    (["--disk", "/etc/passwd", "--writable", "p"], "changed in place"),
    (["--sweep", "50", "--writable", "p"], "does not go with --writable"),
    (["--output", "/x:y", "p"], "for --disk, --rootfs"),
    (["--writable", "--output", "x:y", "p"], "/GUEST:HOST"),
    (["--writable", "--output", "/x:", "p"], "/GUEST:HOST"),
    (["--writable", "--output", "/x:/nonexistent/y", "p"], "in no directory"),
    (["--volume", "/etc", "p"], "HOST:/GUEST"),
    (["--volume", "/nonexistent:/x", "p"], "does not exist"),
    (["--env", "A", "p"], "K=V"),
    (["--cwd", "x", "p"], "absolute"),
    (["--timeout", "soon", "p"], "not a number"),
    (["--delay", "m0=-1", "p"], "out of range"),
    (["--gdb", "nobody", "p"], "neither a role"),
    (["--icount", "nobody", "p"], "neither a role"),
    (["--icount", "p0", "--accel", "kvm", "p"], "needs --accel tcg"),
])  # fmt: skip
def test_refusals_are_one_line(argv, text):
    with pytest.raises(UsageError, match=text) as err:
        parse_run(argv)
    assert "\n" not in str(err.value)


@pytest.mark.parametrize("parse, argv, text", [
    (parse_up, ["--name", "a/b"], "--name"),
    (parse_up, ["--name", ".hidden"], "--name"),
    (parse_up, ["--rootfs", "/usr", "sh"], "packed from the host"),
    (parse_up, ["--timeout", "1", "sh"], "unrecognized"),
    (parse_up, ["--output", "/a:b"], "--output is for --disk"),
    (parse_up, ["--disk", __file__, "--rw", "/etc:/b"], "--rw cannot add to it"),
    (parse_up, ["--disk", __file__, "--commit", "b"], "--commit is for --rootfs"),
    (parse_exec, [], "which program"),
    (parse_exec, ["--processor", "first", "sh"], "not a number"),
    (parse_exec, ["--memories", "2", "sh"], "unrecognized"),
])  # fmt: skip
def test_refusals_of_up_and_exec(parse, argv, text):
    with pytest.raises(UsageError, match=text):
        parse(argv)


def test_several_programs_take_turns():
    o = parse_run(["--processors", "2", "a", "1", ":::", "b", ":::", "c", "--", "3"])
    assert o.commands == [["a", "1"], ["b"], ["c", "--", "3"]]
    o = parse_run(["a", ":::", "b"])
    assert o.commands == [["a", ":::", "b"]]  # with one processor, every word is the program's


def test_up_and_exec_have_options_of_their_own():
    o = parse_up(["--processors", "2", "--volume", "/etc:/e", "sh", "sort"])
    assert (o.name, o.processors, o.pack) == ("default", 2, ["sh", "sort"])
    o = parse_exec(["--name", "x", "--processor", "p1", "--cwd", "/tmp", "sort", "-r"])
    assert (o.name, o.processor, o.program, o.args) == ("x", 1, "sort", ["-r"])


def test_processors_have_process_ids_apart():
    out = commands("--processors", "4")
    ranges = [out[f"p{i}"].split("pids=")[1].split()[0].strip("'") for i in range(4)]
    ranges = [tuple(map(int, r.split("-"))) for r in ranges]
    assert ranges[0][0] == 2 and ranges[3][1] == 4194303
    assert all(a[1] + 1 == b[0] for a, b in zip(ranges, ranges[1:]))
    assert "cluster=p4,m1,s1" in out["s0"]
    assert "pids=" not in commands()["p0"]


def test_each_node_has_a_key_that_no_command_line_shows():
    made = make(parse_run(["--memories", "2", "p"]))
    given = {node.name: plan.give_key(made, node, 5).split(":") for node in made.nodes}
    keys = {name: bytes.fromhex(key) for name, (key, start, *_) in given.items() if start == "5"}
    # Memory and storage nodes have one key of handles, processors none.
    assert {name: rest for name, (_, _, *rest) in given.items()} == {
        "p0": [], **dict.fromkeys(["m0", "m1", "s0"], [plan.file_key(keys["s0"]).hex()])}
    assert len(set(keys.values())) == 4 and all(len(k) == 32 for k in keys.values())
    assert keys["m1"] == plan.node_key(keys["s0"], 3, "memory", 5)
    assert keys["m1"] != plan.node_key(keys["s0"], 3, "memory", 4)
    assert not any(key.hex() in made.text() + repr(made) for key in keys.values())
    assert repr(made.key) not in repr(made)
    assert "opt/tessera/cluster.key,file=/r/p0.key" in made.text()
    assert "opt/tessera/seed,file=/r/p0.seed" in made.text()
    # The same as in test/host/rpc_doors_test.c.
    assert plan.node_key(bytes(range(32)), 4, "processor", 3).hex() == (
        "fe6408722fc739d5e2f4144d97ecb8dfd667288dc4038e879531a5b49c924a8d")
    # The same as in test/host/cluster_test.c.
    assert plan.file_key(bytes(range(32))).hex() == "ff968da9f802e614bcc30d987ea588a8"


def test_a_node_that_is_not_there_is_named():
    with pytest.raises(UsageError, match="no node m1"):
        make(parse_run(["--delay", "m1=5", "p"]))


def test_three_nodes_by_default_and_their_parameters():
    out = commands()
    assert list(out) == ["hca", "p0", "m0", "s0"]
    assert "node=1 rendezvous=lid:3 excache=64M" in out["p0"]
    assert "node=2 rendezvous=lid:3 vregion.size=1G" in out["m0"]
    assert "node=3 rendezvous=lid:3 cluster=p1,m1,s1" in out["s0"]
    assert "virtio-blk-pci" in out["s0"] and "virtio-blk-pci" not in out["p0"]
    assert "lid=3" in out["hca"] and "--control /r/hca.sock" in out["hca"]


def test_each_processor_has_a_network_card():
    out = commands("--processors", "2")
    assert out == commands("--processors", "2", "--net", "user")
    for name in ("p0", "p1"):
        assert "-netdev user,id=net0 " in out[name] and "virtio-net-pci" in out[name]
        assert "-mon " not in out[name]
    assert all("-netdev" not in out[name] for name in ("m0", "s0"))
    assert "gateway.standby=1" in out["p1"] and "gateway.standby" not in out["p0"]
    assert "-netdev" not in commands("--net", "none")["p0"]
    assert "-device e1000e,netdev=net0" in commands("--net-driver", "e1000e")["p0"]


def test_each_processor_has_a_tap_device_of_its_own():
    out = commands("--processors", "3", "--net", "tap:t0,t1")
    assert "tap,id=net0,ifname=t0,script=no" in out["p0"]
    assert "tap,id=net0,ifname=t1,script=no" in out["p1"]
    assert "-netdev" not in out["p2"] and "gateway.standby" not in out["p2"]
    for args, said in (
        (["--net", "tap:t0,t1"], "2 tap devices, and 1 of processors"),
        (["--processors", "2", "--net", "tap:t0,t0"], "one tap device is for one processor"),
        (["--net", "tap:t0,"], "is not user"),
        (["--net", "user,t0"], "is not user"),
    ):
        with pytest.raises(UsageError, match=re.escape(said)):
            parse_run([*args, "p"])


def test_published_ports_lead_to_the_first_processor():
    out = commands("--processors", "2", "--publish", "8080:80", "--publish", "0.0.0.0:53:5353/udp")
    assert (
        "-netdev user,id=net0,hostfwd=tcp:127.0.0.1:8080-:80,hostfwd=udp:0.0.0.0:53-:5353"
        in out["p0"]
    )
    assert "-netdev user,id=net0 " in out["p1"]
    for name in ("p0", "p1"):  # they may lead to another one later
        assert f"socket,id=mon,path=/r/{name}.mon,server=on,wait=off" in out[name]
    o = parse_run(["--publish", "10.0.0.1:80:80", "--publish", "10.0.0.2:80:80/tcp",
                   "--publish", "80:80/udp", "p"])  # fmt: skip
    assert [p.text() for p in o.publish] == [
        "10.0.0.1:80 -> 80/tcp", "10.0.0.2:80 -> 80/tcp", "127.0.0.1:80 -> 80/udp"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "args, said",
    [
        (["--publish", "80"], "wants"),
        (["--publish", "80:x"], "wants"),
        (["--publish", "80:80/sctp"], "wants"),
        (["--publish", "1:2:3:4"], "wants"),
        (["--publish", "80:80,hostfwd=tcp::1-:1"], "wants"),
        (["--publish", ":80:80"], "'' is no IPv4 address"),
        (["--publish", "localhost:80:80"], "'localhost' is no IPv4 address"),
        (["--publish", "[::1]:80:80"], "wants"),
        (["--publish", "0:80"], "0 is no port"),
        (["--publish", "80:65536"], "65536 is no port"),
        (["--publish", "80:1", "--publish", "127.0.0.1:80:2"], "80/tcp is there twice"),
        (["--publish", "80:1", "--publish", "0.0.0.0:80:2"], "80/tcp is there twice"),
        (["--net", "none", "--publish", "80:1"], "not --net none"),
        (["--net", "none", "--net-driver", "e1000"], "does not go with --net none"),
        (["--net", "tap:t0", "--publish", "80:1"], "not --net tap:t0"),
    ],
)
def test_what_cannot_be_published(args, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        parse_run([*args, "p"])


@pytest.mark.parametrize("kind, suffix", [(socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")])
def test_a_published_port_that_is_taken(kind, suffix):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        if suffix == "tcp":
            s.listen()
        port = s.getsockname()[1]
        o = parse_run(["--publish", f"{port}:80/{suffix}", "p"])
        with pytest.raises(LaunchError, match=f"127.0.0.1:{port}/{suffix}: Address already in use"):
            host.Host(o).check_ports()
    host.Host(o).check_ports()


def test_every_machine_is_locked_in_and_reached_by_descriptors():
    for name, line in commands("--memories", "2").items():
        if name == "hca":
            continue
        for wanted in ("-sandbox on,", "-nodefaults", "-cpu max,-erms,-fsrm", "share=on",
                       f"fd={{{name}.ctl}}", f"fd={{{name}.hca}}", f"fd={{{name}.qtest}}"):
            assert wanted in line, wanted


def test_parameters_and_sizes_go_to_the_selected_nodes():
    out = commands("--memories", "2", "--append", "m1:x=1", "--append", "memory:y", "--append",
                   "z=a:b",
                   "--memory", "m1=1G", "--memory", "memory=256M")  # fmt: skip
    assert "x=1 y z=a:b" in out["m1"] and "x=1" not in out["m0"]
    assert (
        " y z=a:b" in out["m0"] and " y" not in out["p0"].split("-append")[1].split("-chardev")[0]
    )
    assert "-m 1024M" in out["m1"] and "-m 256M" in out["m0"]
    assert "z=a:b" in out["s0"]


def test_paths_with_commas_stay_whole():
    made = plan.make_plan(
        parse_run(["prog"]),
        qemu="qemu",
        hca="hca",
        accel="tcg",
        build_dir="/b",
        log_dir="/l,a",
        run_dir="/r",
        disk=Disk("/d,b.img"),
        choice=fabric.Choice("mpqemu", "test"),
    )
    out = {c.name: c.text() for c in made.commands}
    assert "path=/l,,a/p0.log" in out["p0"]
    assert "file=/d,,b.img" in out["s0"]


def test_icount_is_for_the_selected_node():
    out = commands("--icount", "processor")
    assert "tcg,thread=single" in out["p0"] and "-icount shift=0" in out["p0"]
    assert "tcg,thread=multi" in out["m0"] and "-icount" not in out["m0"]


def test_a_clock_of_instructions_gets_a_long_lease():
    """Heartbeats are as slow as its clock; another length may be given."""
    assert "cluster.lease_ms" not in commands()["s0"]
    assert "cluster.lease_ms=600000" in commands("--icount", "processor")["s0"]
    out = commands("--icount", "processor", "--append", "storage:cluster.lease_ms=20000")["s0"]
    assert out.index("cluster.lease_ms=600000") < out.index("cluster.lease_ms=20000")


def test_shuffle_is_repeatable_and_shuffles():
    orders = set()
    for seed in range(20):
        args = ("--memories", "2", "--boot-order", "shuffle", "--seed", str(seed))
        names = tuple(commands(*args))
        assert names == tuple(commands(*args)) and names[0] == "hca"
        orders.add(names)
    assert len(orders) > 5


def test_dry_run_prints_and_starts_nothing(launcher):
    done = launcher.run("--dry-run", "--memories", "2", "/bin/true")
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0 and len(lines) == 6
    assert lines[0] == "# fabric: HCA model over mpqemu: by --fabric"
    assert "fake_hca" in lines[1] and all("tessera-" in line for line in lines[2:])


def test_help_lists_every_option():
    text = subprocess.run(
        [ROOT / "tessera", "run", "--help"], capture_output=True, text=True
    ).stdout
    for option in ("--volume", "--disk", "--stats", "--inject", "--gdb", "--timeout"):
        assert option in text


def test_probe_is_a_loadable_elf(tmp_path):
    path = tmp_path / "probe.elf"
    path.write_bytes(accel.probe_elf())
    out = subprocess.run(["readelf", "-n", "-l", path], capture_output=True, text=True)
    assert "Xen" in out.stdout and out.stderr == ""


def test_account_is_readable():
    stats = {
        "p0": {"counters": {"excache": {"misses": 1234567}}},
        "m0": None,
        "s0": {"virtio-blk.bytes": 3 << 20},
    }
    text = account.describe([("p0", "processor"), ("m0", "memory"), ("s0", "storage")], stats)
    assert "1,234,567  ExCache misses" in text
    assert "gave no counters" in text and "3.0 MiB  read from disk" in text


def test_gdb_attaches_by_a_socket():
    """Programs reach the host's ports, and gdb commands the machine."""
    out = commands("--gdb", "p0")
    assert "-chardev socket,id=gdb0,path=/r/p0.gdb,server=on,wait=off -gdb chardev:gdb0 -S" in (
        out["p0"]
    )
    assert "-gdb" not in out["m0"] and "tcp:127" not in out["p0"]


def test_qemu_without_some_devices(tmp_path):
    qemu, cache = tmp_path / "qemu", str(tmp_path / "cache.json")
    for listed, there in (('name "virtio-net-pci"', False), ('name "virtio-rng-pci"', True),
                          ("", True)):  # fmt: skip
        qemu.write_text(f"#!/bin/sh\necho '{listed}'\n")
        qemu.chmod(0o755)
        assert accel.has_device(plan.ENTROPY, str(qemu), cache) is there
        assert os.path.exists(cache)
    o = parse_run(["prog"])
    o.program = "prog"
    laid_out = plan.make_plan(o, qemu="qemu", hca="hca", accel="tcg", build_dir="/b", log_dir="/l",
                              run_dir="/r", disk=Disk("/r/root.img"), entropy=False,
                              choice=fabric.Choice("mpqemu", "test"))  # fmt: skip
    assert not any("virtio-rng" in c.text() for c in laid_out.commands)
    assert "virtio-rng-pci" in commands()["p0"]


def test_qemu_without_a_user_network_names_a_way_on():
    said = "qemu: -netdev user,id=net0: network backend 'user' is not compiled into this binary"
    assert cluster.without_network(said) == said + "; --net none runs without a network"
    taken = "qemu: -netdev user,id=net0: Could not set up host forwarding rule"
    assert cluster.without_network(taken) == taken
