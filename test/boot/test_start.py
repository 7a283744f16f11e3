# SPDX-License-Identifier: MIT
"""Clusters of their own: boot order, late and missing nodes, bad parameters, bad disks, the
command line.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
from boot import BUILD, ROOT, WORK, LaunchError, Running, on_host
from tessera_launcher import packages
from tessera_launcher.errors import UsageError

LATE_S = 5.0
GUID_OF_LID_3 = "0002c90300000301"  # the model's own choice


def tessera(*args, limit=120, **how):
    """./tessera run itself, with what is built."""
    how.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        [ROOT / "tessera", "run", "--no-build", "--build-dir", BUILD, *map(str, args)],
        capture_output=True, timeout=limit, **how,
    )  # fmt: skip


def complaints(stderr):
    """The lines of the launcher but the one that an image is changed in place."""
    return [x for x in stderr.decode().splitlines() if not x.endswith(" is changed in place")]


def up(name, *args, disk):
    return Running(tuple(args), disk, f"start-{name}")


def refused(name, *args, disk):
    """The one line with which a cluster does not come up."""
    running = up(name, *args, disk=disk)
    with pytest.raises(LaunchError) as err:
        running.up()
    assert "\n" not in str(err.value)
    return str(err.value), running


@pytest.mark.parametrize("cpu, seed, device, said", [
    ("max,-rdrand,-rdseed", "", False, "no RDRAND, and no seed from QEMU"),
    ("max,-rdrand,-rdseed", "12" * 32, False, "random: seeded by QEMU"),
    ("max,-rdrand,-rdseed", "12" * 16, False, "no RDRAND, and no seed from QEMU"),
    ("max,-rdrand,-rdseed", "", True, "random: seeded by a device"),
    ("max", "", False, "random: seeded"),
])  # fmt: skip
def test_random_numbers_have_a_seed(tmp_path, cpu, seed, device, said):
    log = tmp_path / "serial.log"
    given = ["-fw_cfg", f"name=opt/tessera/seed,string={seed}"] if seed else []
    given += ["-device", "virtio-rng-pci,disable-legacy=on"] if device else []
    command = [
        packages.require("qemu-system-x86_64")[0], "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-M", "pc", "-accel", "tcg", "-cpu", cpu, "-m", "128M",
        "-kernel", BUILD / "memory" / "kernel.elf",
        "-append", "ktest=kernel.counter.random_differs",
        "-serial", f"file:{log}", "-device", "isa-debug-exit,iobase=0xf4,iosize=4", *given,
    ]  # fmt: skip
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert said in log.read_text()


def without_seeds(where, *also):
    """QEMU, but machines get no seed, their CPUs have no RDRAND, and no device of kinds @also."""
    script = where / "qemu"
    script.write_text(f"""#!/usr/bin/env python3
import os, sys
words, out = iter(sys.argv[1:]), []
for word in words:
    value = next(words) if word in ("-cpu", "-fw_cfg", "-device") else None
    if word == "-cpu":
        value += ",-rdrand,-rdseed"
    if value is None or not value.startswith(("name=opt/tessera/seed", *{also!r})):
        out += [word] if value is None else [word, value]
os.execv("{packages.require("qemu-system-x86_64")[0]}", [sys.argv[0], *out])
""")
    script.chmod(0o755)
    return str(script)


def test_no_program_runs_without_a_seed(disk, tmp_path):
    """So getrandom() need not wait: there is no cluster on which it could be called."""
    said, running = refused("unseeded", "--qemu", without_seeds(tmp_path, "virtio-rng"), disk=disk)
    assert "no source of random numbers for keys" in said


def test_a_device_is_seed_enough(disk, tmp_path):
    running = up("device-seeded", "--qemu", without_seeds(tmp_path), disk=disk)
    running.up()
    try:
        read = ["/usr/bin/busybox", "sh", "-c", "head -c 16 /dev/urandom | od -A n -t x1"]
        assert len({running.run(read).checked() for _ in range(3)}) == 3
        assert all(stats["random.reseeds"] >= 1 for stats in running.stats().values())
        assert all("random: seeded by a device" in running.log(n) for n in ("p0", "m0", "s0"))
    finally:
        running.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_boot_order_does_not_matter(disk, programs, seed):
    running = up(
        f"shuffle{seed}",
        "--memories",
        "2",
        "--boot-order",
        "shuffle",
        "--seed",
        str(seed),
        disk=disk,
    )
    running.up()
    try:
        argv = [programs / "glibc-static/hello", str(seed)]
        assert running.run(argv) == on_host(argv)
    finally:
        running.close()


def test_init_calls_need_no_order_inside_a_level(disk, programs):
    orders = set()
    for seed in (1, 2, 3):
        flags = ("--append", f"initcall.shuffle={seed}", "--append", "p0:loglevel=debug")
        running = up(f"initcalls{seed}", *flags, disk=disk)
        running.up()
        try:
            argv = [programs / "glibc-static/hello", str(seed)]
            assert running.run(argv) == on_host(argv)
            places = ["/dev/pts", "/dev/shm", "/proc/self", "/sys/devices"]
            seen = running.run(["/usr/bin/busybox", "ls", "-d", *places])
            assert seen.status == 0, seen.err
            log = running.log("p0")
            assert "initcall" in log and "failed" not in log
            orders.add(tuple(re.findall(r"initcall (\w+)", log)))
        finally:
            running.close()
    assert len(orders) > 1 and len({tuple(sorted(o)) for o in orders}) == 1


def test_the_rendezvous_node_is_named_by_its_gid(disk, programs):
    """All but the storage node itself, which the launcher otherwise names by its LID, 3."""
    gid = "fe80:0000:0000:0000:" + ":".join(GUID_OF_LID_3[i : i + 4] for i in range(0, 16, 4))
    running = up(
        "gid",
        "--append",
        f"p0:rendezvous=gid:{gid}",
        "--append",
        f"m0:rendezvous=gid:{gid}",
        disk=disk,
    )
    running.up()
    try:
        argv = [programs / "glibc-static/hello", "gid"]
        assert running.run(argv) == on_host(argv)
        for name in ("p0", "m0"):
            assert f"rendezvous=gid:{gid}" in running.log(name)
    finally:
        running.close()


def test_a_memory_node_that_starts_5_s_late(disk, programs):
    running = up("late", "--memories", "2", "--delay", f"m1={LATE_S}", disk=disk)
    start = time.monotonic()
    running.up()
    try:
        assert time.monotonic() - start >= LATE_S
        assert running.run([programs / "musl-static/hello"]).status == 0
    finally:
        running.close()


def test_a_node_that_never_comes_is_named(disk):
    line, _ = refused(
        "never", "--memories", "2", "--delay", "m1=1000", "--boot-timeout", "15", disk=disk
    )
    assert (
        "not ready" in line
        and "wait" in line
        and ("m1" in line or "memory" in line or "node 3" in line)
    )


@pytest.mark.parametrize("param, text", [
    ("p0:no.such.parameter=7", "--append: no.such.parameter is no boot parameter of a p0 node"),
    ("processor:rpc.slots.demand=7", "rpc.slots.demand must be the same on all nodes"),
    ("m0:node=banana", "bad value for node: 'banana', not a number from 0 to 65535"),
    ("memory:vregion.size=1G vregion.size=1M", "bad value for vregion.size: '1M'"),
])  # fmt: skip
def test_what_no_kernel_can_use_is_refused_before_anything_starts(disk, param, text):
    with pytest.raises(UsageError, match=re.escape(text)) as err:
        up("refused", "--append", param, disk=disk)
    assert "\n" not in str(err.value)


@pytest.mark.parametrize("param, text", [
    ("m0:loglevel=banana", 'bad value for loglevel: "banana" (lines to print and keep: err, warn'),
    ("p0:excache.policy=x", 'bad value for excache.policy: "x" (which line a full set evicts:'),
    ("p0:excache=64K", "excache=65536: must give at least 16 sets"),
], ids=["callback", "policy", "start"])  # fmt: skip
def test_what_a_kernel_finds_wrong_is_shown(disk, param, text):
    line, _ = refused("malformed", "--append", param, disk=disk)
    assert line.startswith("node m0" if param[0] == "m" else "node p0") and text in line


def make_bad_disks(disk):
    """Images that must be refused, by name."""
    where = WORK / "bad-disks"
    where.mkdir(parents=True, exist_ok=True)
    good = pathlib.Path(disk).read_bytes()[: 4 << 20]
    out = {"zeros": bytes(4 << 20), "short": good[:1500]}

    def patched(at, value):
        return good[:at] + value + good[at + len(value) :]

    out["magic"] = patched(1024 + 56, b"\0\0")
    out["unknown-feature"] = patched(1024 + 96, (0x80000000 | 0x2C2).to_bytes(4, "little"))
    out["needs-recovery"] = patched(1024 + 96, (0x2C2 | 0x4).to_bytes(4, "little"))
    for name, data in out.items():
        (where / name).write_bytes(data.ljust(512, b"\0"))
    return where, list(out)


@pytest.mark.parametrize("name", ["zeros", "short", "magic", "unknown-feature", "needs-recovery"])
def test_bad_disks_are_refused_with_a_clear_line(disk, name):
    where, _ = make_bad_disks(disk)
    image = where / name
    data = image.read_bytes()
    done = tessera("--disk", image, "--boot-timeout", "30", "/bin/true")
    lines = complaints(done.stderr)
    assert done.returncode == 125 and len(lines) == 1, lines
    seen_before = name in ("zeros", "magic")  # it starts
    assert lines[0].startswith(f"tessera: {image} is not" if seen_before else "tessera: node s0")
    line, _ = refused(f"bad-{name}", "--boot-timeout", "30", disk=image)
    assert line.startswith("node s0")
    assert image.read_bytes() == data  # never written over


def test_the_command_line_runs_a_dynamic_program(texts):
    host_file = "/usr/bin/cksum"
    if not os.path.exists(host_file):
        pytest.skip("no cksum")
    done = tessera(
        "--volume", f"{texts / 'text.small'}:/data/text", "--cwd", "/data", host_file, "text"
    )
    want = subprocess.run([host_file], stdin=open(texts / "text.small"), capture_output=True).stdout
    assert done.stdout.split()[:2] == want.split()[:2], done
    assert done.returncode == 0 and done.stderr == b""


def test_the_command_line_writes_statistics(tmp_path):
    path = tmp_path / "stats.json"
    done = tessera("--stats", path, "busybox", "echo", "counted")
    assert done.stdout == b"counted\n" and done.returncode == 0
    got = json.loads(path.read_text())
    assert sorted(got["nodes"]) == ["m0", "p0", "s0"]
    assert all(got["nodes"].values()) and got["hca"]


@pytest.mark.parametrize("program, status", [("/bad/text", 126), ("/nonexistent", 127)])
def test_the_command_line_refuses_in_one_line(disk, program, status):
    done = tessera("--disk", _copy(disk), program)
    assert done.returncode == status and len(complaints(done.stderr)) == 1, done.stderr


@pytest.mark.parametrize("where, status", [("/", 126), ("/bad", 126)])
def test_a_damaged_directory_is_told_as_that(disk, where, status):
    """The program's directory, or the root itself, has a block of noise."""
    image = _copy(disk)
    ask = ["debugfs", "-R", f"bmap {where} 0", image]
    block = int(subprocess.run(ask, capture_output=True, check=True, text=True).stdout)
    with open(image, "r+b") as f:
        f.seek(block * 4096)
        f.write(b"\xa5" * 4096)
    done = tessera("--disk", image, "/bad/text")
    assert done.returncode == status and len(complaints(done.stderr)) == 1, done.stderr
    assert b"Structure needs cleaning" in done.stderr


def _copy(disk):
    target = WORK / "copy.img"
    subprocess.run(["cp", "--sparse=always", disk, target], check=True)
    return target


def test_a_killed_model_is_one_line_and_status_125(disk):
    """Nothing of a cluster works without the HCA model: the run says so and ends."""
    run = subprocess.Popen(
        [ROOT / "tessera", "run", "--no-build", "--build-dir", BUILD, "--disk", _copy(disk),
         "/usr/bin/busybox",
         "yes"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert run.stdout.read(2) == b"y\n"  # it is at work
        os.kill(model_of(run.pid), signal.SIGKILL)
        run.stdout.read()
        err = run.stderr.read()
        assert run.wait(60) == 125 and len(complaints(err)) == 1, err
        assert b"the HCA model was killed by signal 9" in err
    finally:
        run.kill()
        run.wait()


def below(pid):
    """The descendants of a process."""
    for child in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for found in map(int, child.read_text().split()):
            yield found
            yield from below(found)


def model_of(pid):
    return next(p for p in below(pid) if os.readlink(f"/proc/{p}/exe").endswith("/tessera-hca"))


def machine_of(pid, node):
    words = lambda p: pathlib.Path(f"/proc/{p}/cmdline").read_bytes().split(b"\0")  # noqa: E731
    return next(p for p in below(pid) if f"tessera-{node}".encode() in words(p))


def test_a_program_of_a_killed_memory_is_lost_in_one_line(disk):
    """The cluster would go on with the other memory; the run says what is lost, and ends."""
    # More than two vRegions of private memory: some of it is on each node.
    script = "x=$(seq 1 600000); echo ready $$; read y"
    run = subprocess.Popen(
        [ROOT / "tessera", "run", "--no-build", "--build-dir", BUILD, "--disk", _copy(disk),
         "--memories", "2", "--vregion", "2M", "/usr/bin/busybox", "sh", "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        ready, pid = run.stdout.readline().split()
        assert ready == b"ready"
        os.kill(machine_of(run.pid, "m1"), signal.SIGKILL)
        err = complaints(run.stderr.read())
        assert run.wait(60) == 125 and len(err) == 1, err
        lost = rf"tessera: m1 is gone, and with it memory of busybox \(pid {int(pid)}\)"
        assert re.match(lost, err[0]), err
    finally:
        run.kill()
        run.communicate()


def test_a_killed_memory_node_is_one_line(disk):
    running = up("killed", disk=disk)
    running.up()
    try:
        program, _ = running.start(["/usr/bin/busybox", "cat"])
        assert program.wait(what="start")
        running.cluster.kill_node("m0")
        with pytest.raises(LaunchError, match="node m0 was killed by signal 9"):
            program.wait(time.monotonic() + 30)
    finally:
        running.close()
