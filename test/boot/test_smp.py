# SPDX-License-Identifier: MIT
"""Several CPUs: what is brought up and what is left out, a panic of all, programs as on one CPU."""

import os
import re
import signal
import struct
import subprocess
import time

import pytest
from boot import BUILD, WORK, on_host
from tessera_launcher import accel, packages
from test_programs import KINDS

LIMIT_S = 120.0
FOUR = ("--cpus", "processor=4", "--cpus", "memory=2")


def qemu_command(log, words, smp="4", extra=()):
    qemu = packages.require("qemu-system-x86_64")[0]
    WORK.mkdir(parents=True, exist_ok=True)
    return [qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-M", "pc",
            "-accel", "tcg,thread=multi", "-cpu", accel.TCG_CPU, "-smp", smp, "-m", "256M",
            "-kernel", BUILD / "processor/kernel.elf", "-append", words, "-serial", f"file:{log}",
            "-device", "isa-debug-exit,iobase=0xf4,iosize=4", *extra]  # fmt: skip


def bare(name, words, *, smp="4", extra=()):
    """One processor image without devices: QEMU's exit status and the log."""
    log = WORK / f"smp-{name}.log"
    log.unlink(missing_ok=True)
    done = subprocess.run(qemu_command(log, words, smp, extra), stdin=subprocess.DEVNULL,
                          capture_output=True,
                          timeout=LIMIT_S)  # fmt: skip
    return done.returncode, log.read_text(errors="replace")


SHORT = "ktest=lib.list.*"
PASSED, PANICKED = 1, 7


def madt(*cpus: tuple[int, int]) -> bytes:
    """A table of CPUs, (APIC id, flags) each; QEMU puts the checksum right."""
    body = struct.pack("<II", 0xFEE00000, 0)
    for apic_id, flags in cpus:
        body += struct.pack("<BBBBI", 0, 8, apic_id & 0xFF, apic_id, flags)
    head = struct.pack(
        "<4sIBB6s8sI4sI", b"APIC", 36 + len(body), 3, 0, b"TESTER", b"TESTMADT", 1, b"TEST", 1
    )
    return head + body


@pytest.mark.parametrize("smp", [1, 2, 4, 16])
def test_all_cpus_come_up(smp):
    status, log = bare(f"up{smp}", SHORT, smp=str(smp))
    assert status == PASSED, log[-2000:]
    found = re.findall(r"smp: (\d+) CPUs after", log)
    assert found == ([str(smp)] if smp > 1 else [])


@pytest.mark.parametrize("wanted, want", [("1", []), ("3", ["3"]), ("0", ["4"]), ("99", ["4"])])
def test_cpus_limits_them(wanted, want):
    status, log = bare(f"limit{wanted}", f"{SHORT} cpus={wanted}")
    assert status == PASSED
    assert re.findall(r"smp: (\d+) CPUs after", log) == want


def test_cpus_that_could_be_plugged_in_are_not_started():
    status, log = bare("hotplug", SHORT, smp="2,maxcpus=8")
    assert status == PASSED
    assert re.findall(r"smp: (\d+) CPUs after", log) == ["2"]
    assert "left out" not in log


def test_a_cpu_that_does_not_start_is_named_and_left_out():
    table = WORK / "ghost.aml"
    WORK.mkdir(parents=True, exist_ok=True)
    table.write_bytes(madt((77, 1), (78, 0), (1, 1)))
    status, log = bare("ghost", SHORT, smp="3", extra=["-acpitable", f"file={table}"])
    assert status == PASSED
    assert re.findall(r"CPU with APIC id (\d+) does not start, left out", log) == ["77"]
    assert re.findall(r"smp: (\d+) CPUs after", log) == ["3"]


def test_a_panic_stops_all_cpus_and_shows_what_they_did():
    status, log = bare("panic", "crash=cpus panic=exit")
    assert status == PANICKED
    assert "PANIC: with 3 other CPUs at work" in log
    for cpu in (1, 2, 3):
        assert f"cpu {cpu} stopped in the kernel, thread deaf" in log
    assert log.count("deaf_loop") == 3
    assert "does not answer" not in log and "end of panic" in log


def test_the_clock_is_right_when_the_machine_is_stopped_while_it_is_measured():
    """A host with more to do than it can: the virtual CPU stands still for longer than the PIT
    counts.
    """
    rates = []
    for name, stopped_s in (("clock", 0), ("clock-stopped", 0.09)):
        log = WORK / f"smp-{name}.log"
        log.unlink(missing_ok=True)
        qemu = subprocess.Popen(qemu_command(log, SHORT, smp="1"), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        end = time.monotonic() + LIMIT_S
        while qemu.poll() is None and time.monotonic() < end:
            if stopped_s:
                qemu.send_signal(signal.SIGSTOP)
                time.sleep(stopped_s)
                qemu.send_signal(signal.SIGCONT)
            time.sleep(0.012)
        qemu.kill()
        assert qemu.wait() == PASSED
        rates += re.findall(r"tsc: (\d+)\.\d+ MHz by PIT", log.read_text(errors="replace"))
    assert len(rates) == 2 and abs(int(rates[0]) - int(rates[1])) < int(rates[0]) / 50, rates


# Programs: the same on four CPUs as on the host.


@pytest.mark.skipif("ubsan" not in BUILD.name and not os.environ.get("TEST_LONG"),
                    reason="make test-long runs it on the UBSan build")  # fmt: skip
def test_short_set_on_4_cpus(pool, programs, texts):
    cluster = pool.get(*FOUR)
    for kind in KINDS:
        argv = [programs / kind / "hello", kind]
        assert cluster.run(argv) == on_host(argv)
    argv = [programs / "glibc-static/mapping", "1000", "7"]
    assert cluster.run(argv) == on_host(argv)
    assert cluster.run([programs / "glibc-static/crash", "null"]).status == 128 + 11
    for threads in (["threads", "mutex"], ["threads", "many", "200"], ["threads", "exits"],
                    ["pthreads"],
                    ["futexes"]):  # fmt: skip
        argv = [programs / "glibc-static" / threads[0], *threads[1:]]
        assert cluster.run(argv) == on_host(argv)
    for applet in (["sha256sum"], ["sort"], ["wc"]):
        argv = ["/usr/bin/busybox", *applet, "text.small"]
        assert cluster.run(argv) == on_host(argv, cwd=texts)
    assert cluster.log("p0").count("smp: 4 CPUs after") == 1
    assert cluster.log("m0").count("smp: 2 CPUs after") == 1


@pytest.mark.long
@pytest.mark.parametrize("cpus", [2, 4, 16])
@pytest.mark.parametrize("role", ["processor", "memory", "storage"])
def test_each_role_with_more_cpus(pool, programs, texts, role, cpus):
    cluster = pool.get("--cpus", f"{role}={cpus}", "--vregion", "2M", "--memories", "2")
    argv = [programs / "glibc-dyn/mapping", "1000", str(cpus)]
    assert cluster.run(argv) == on_host(argv)
    argv = ["/usr/bin/busybox", "sort", "text.small"]
    assert cluster.run(argv, limit=600) == on_host(argv, cwd=texts)
