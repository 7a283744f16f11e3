# SPDX-License-Identifier: MIT
"""What programs are told about the system: the vDSO's clocks, /proc, /sys and /dev."""

import re
import shutil
import time

import pytest
from boot import TWO_MEMORIES, ProgramRefused, delta, on_host, wait_for
from tessera_launcher import packages

BUSYBOX = packages.require("busybox")[0]

VDSO_KINDS = ["glibc-static", "musl-static", "glibc-dyn", "musl-dyn"]


# The launcher's walks. It is no process.


def test_a_walk_for_the_launcher_looks_into_no_process(plain):
    living, _capture = plain.start([BUSYBOX, "sleep", "100"])
    wait_for(lambda: living.started)
    own = f"/proc/{living.started.pid}"
    for cwd in ["/proc/self", "/proc/thread-self", f"{own}/cwd"]:
        with pytest.raises(ProgramRefused):
            plain.run([BUSYBOX, "true"], cwd=cwd)
    for cwd in [own, f"{own}/fd"]:
        assert plain.run([BUSYBOX, "true"], cwd=cwd).status == 0
    living.signal(9)
    assert living.wait(time.monotonic() + 10)


# The vDSO.


@pytest.mark.parametrize("kind", VDSO_KINDS)
def test_clocks_agree_with_the_system_calls(plain, programs, kind):
    argv = [programs / kind / "vdso"]
    assert plain.run(argv) == on_host(argv)


def test_clocks_and_cpus_on_four_cpus(four, programs):
    argv = [programs / "glibc-static/vdso"]
    assert four.run(argv) == on_host(argv)


@pytest.mark.parametrize("kind", VDSO_KINDS)
def test_a_million_clock_readings_make_no_system_call(plain, programs, kind):
    before = plain.stats()
    assert (
        plain.run([programs / kind / "vdso", "count"]).out
        == b"a million readings never went back\n"
    )
    assert delta(before, plain.stats(), "p0", "syscall.count") < 100


def test_nobody_changes_the_vdso(plain, programs):
    got = plain.run([programs / "glibc-static/vdso", "attack"])
    assert got.out.endswith(b"the pages are as they should be\nnobody can change them\n"), got.err


def test_clocks_through_system_calls(pool, programs):
    """Where the TSC cannot be trusted the vDSO asks the kernel."""
    cluster = pool.get("--append", "processor:vdso=syscall")
    argv = [programs / "glibc-static/vdso"]
    before = cluster.stats()
    assert cluster.run(argv) == on_host(argv)
    assert delta(before, cluster.stats(), "p0", "syscall.count") > 1_000_000


def test_without_a_vdso(pool, programs):
    cluster = pool.get("--append", "processor:vdso=off")
    got = cluster.run([programs / "musl-static/facts"])
    assert got.status == 0 and got.out.startswith(b"clocks: ok\n"), got.err


# /proc and /sys.


BUSYBOX = "/usr/bin/busybox"
FOUR_CPUS = ("--cpus", "processor=4")
FACTS = ("memory", "reading", "mappings", "threads", "others", "permissions", "login",
         "descriptors", "system", "identity")  # fmt: skip


def tool(name):
    """The host's @name, which the disk image has at the same path."""
    path = shutil.which(name)
    if not path:
        pytest.skip(f"this host has no {name}")
    return path


@pytest.fixture
def four(pool):
    return pool.get(*FOUR_CPUS)


def test_files_say_what_the_program_knows(cluster, programs):
    got = cluster.run(
        [programs / "glibc-static/procfs", "one", "", "two words"], env=["NAME=value"]
    )
    assert got.out.decode() == "".join(f"{name}: ok\n" for name in FACTS), got.err
    assert got.status == 0


def test_files_say_what_the_program_knows_on_four_cpus(four, programs):
    got = four.run([programs / "glibc-static/procfs"])
    assert got.out.decode() == "".join(f"{name}: ok\n" for name in FACTS), got.err


def test_everything_is_read_while_processes_come_and_go(four, programs):
    got = four.run([programs / "glibc-static/procfs", "walk", "3"])
    assert got.out == b"walked: ok\n", got.err


EXACT = {
    "/proc/self/comm": "busybox\n",
    "/proc/self/cmdline": "/usr/bin/busybox\0cat\0/proc/self/cmdline\0",
    "/proc/self/cgroup": "0::/\n",
    "/proc/self/loginuid": "4294967295",
    "/proc/self/oom_score_adj": "0\n",
    "/proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n",
    "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
    "/proc/sys/kernel/ostype": "Linux\n",
    "/proc/sys/kernel/pid_max": "4194304\n",
    "/proc/sys/kernel/cap_last_cap": "40\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    "/proc/sys/net/core/somaxconn": "4096\n",
    "/proc/sys/fs/nr_open": "1048576\n",
    "/sys/devices/system/cpu/online": "0-3\n",
    "/sys/devices/system/cpu/possible": "0-3\n",
    "/sys/devices/system/cpu/offline": "\n",
    "/sys/devices/system/cpu/kernel_max": "255\n",
    "/sys/devices/system/cpu/cpu2/topology/core_id": "2\n",
    "/sys/devices/system/cpu/cpu2/topology/thread_siblings": "4\n",
    "/sys/devices/system/cpu/cpu2/topology/core_siblings": "f\n",
    "/sys/devices/system/cpu/cpu2/topology/core_siblings_list": "0-3\n",
    "/sys/devices/system/node/online": "0\n",
    "/sys/devices/system/node/node0/cpumap": "f\n",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
    "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
}  # fmt: skip


@pytest.mark.parametrize("path", EXACT)
def test_exact_contents(four, path):
    assert four.run([BUSYBOX, "cat", path]).checked().decode() == EXACT[path]


@pytest.mark.parametrize("path", [
    "/proc/self/nothing", "/proc/4194303", "/proc/01", "/proc/0", "/proc/self/fd/99",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu/cpu4", "/sys/devices/system/cpu/cpu01", "/proc/sys/net/ipv6",
])  # fmt: skip
def test_what_is_not_there(four, path):
    got = four.run([BUSYBOX, "ls", "-d", path])
    assert got.status == 1 and got.err.decode() == f"ls: {path}: No such file or directory\n"


def test_streams_by_name(plain):
    script = ("echo one >/dev/stdout; echo two >/proc/self/fd/2; echo three | cat /dev/stdin; "
              "cat /dev/fd/0; echo four")  # fmt: skip
    got = plain.run([BUSYBOX, "sh", "-c", script], stdin=b"from outside\n")
    assert got.checked() == b"one\nthree\nfrom outside\nfour\n" and got.err == b"two\n"


def test_names_of_mapped_files(plain, programs):
    """The program, its interpreter and its libraries, by their canonical names."""
    program = programs / "glibc-dyn/hello"
    got = plain.run([tool("df"), "/proc"])
    assert got.status == 0, got.err
    out = plain.run([BUSYBOX, "sh", "-c", "cat /proc/$$/maps"]).checked().decode()
    names = {line[73:] for line in out.splitlines() if line[73:74] == "/"}
    assert names == {"/usr/bin/busybox"} and program.exists()
    out = plain.run([tool("ps"), "-o", "comm="]).checked().decode()
    assert out.split() == ["ps"]


def test_busybox_tools(plain):
    out = (
        plain.run([BUSYBOX, "sh", "-c", "ps; pidof busybox; echo $$"])
        .checked()
        .decode()
        .splitlines()
    )
    assert out[0] == "PID   USER     COMMAND"
    assert re.fullmatch(r" *(\d+) root +/usr/bin/busybox sh -c .*", out[1])
    assert out[-1] in out[-2].split() and out[-1] == out[1].split()[0]
    out = plain.run([BUSYBOX, "free"]).checked().decode().splitlines()
    total, used, free = map(int, out[1].split()[1:4])
    assert out[1].startswith("Mem:") and total > 100_000 and 0 < free <= total and used < total
    assert re.search(r" up 0 min,  0 users,  load average: \d\.\d\d, ",
                     plain.run([BUSYBOX, "uptime"]).checked().decode())
    out = plain.run([BUSYBOX, "top", "-b", "-n1"]).checked().decode()
    assert re.search(r"^ +\d+ +1 root +R +.*busybox top -b -n1$", out, re.M)


def test_mounts(plain):
    out = plain.run([BUSYBOX, "cat", "/proc/mounts"]).checked().decode().splitlines()
    assert out[0] == "/dev/root / ext4 ro,relatime 0 0"
    assert "proc /proc proc rw,noexec,nosuid,nodev,relatime 0 0" in out
    info = plain.run([BUSYBOX, "cat", "/proc/self/mountinfo"]).checked().decode().splitlines()
    assert [line.split()[4] for line in info] == [line.split()[1] for line in out]
    ids = {line.split()[0] for line in info}
    assert len(ids) == len(info) and all(line.split()[1] in ids for line in info[1:])
    root = plain.run([tool("mount")]).checked().decode().splitlines()[0]
    assert root == "/dev/root on / type ext4 (ro,relatime)"
    assert plain.run([tool("df"), "-P", "/"]).checked().splitlines()[1].startswith(b"/dev/root ")


def test_procps(four, plain):
    out = (
        four.run([tool("ps"), "-e", "-o", "pid,ppid,stat,nlwp,args"])
        .checked()
        .decode()
        .splitlines()
    )
    assert out[0].split() == ["PID", "PPID", "STAT", "NLWP", "COMMAND"]
    assert re.fullmatch(rf" *\d+ +1 R\S* +1 {tool('ps')} -e -o pid,ppid,stat,nlwp,args", out[1])
    out = four.run([tool("top"), "-b", "-n1"], env=["TERM=dumb"]).checked().decode()
    assert re.search(r"^Tasks: +\d+ total, +1 running", out, re.M)
    assert re.search(r"^ +\d+ (root|0) .* R .* top$", out, re.M)
    total = int(four.run([tool("free"), "-k"]).checked().split()[7])
    assert (
        f"MemTotal:{total:15} kB" in four.run([BUSYBOX, "cat", "/proc/meminfo"]).checked().decode()
    )
    assert "load average" in four.run([tool("uptime")]).checked().decode()


def test_cpus_by_the_host_tools(four, plain):
    assert four.run([tool("nproc")]).checked() == b"4\n"
    assert plain.run([tool("nproc")]).checked() == b"1\n"
    out = four.run([tool("lscpu")]).checked().decode()
    fields = {k.strip(): v.strip() for k, v in (line.split(":", 1) for line in out.splitlines())}
    assert fields["CPU(s)"] == "4" and fields["On-line CPU(s) list"] == "0-3"
    assert fields["Core(s) per socket"] == "4" and fields["Thread(s) per core"] == "1"
    assert fields["NUMA node0 CPU(s)"] == "0-3" and "sse2" in fields["Flags"].split()


def test_more_memory_nodes_are_more_memory(plain, pool):
    def total(cluster):
        return int(cluster.run([BUSYBOX, "free"]).checked().split()[7])

    assert total(pool.get("--vregion", "2M", "--memories", "2")) > 1.9 * total(plain)


def usage(pages, small):
    """What meminfo.c prints, with so many pages."""
    half, quarter = pages // 2, pages // 4
    lines = []

    def line(what, anon=0, shared=0, dirty=0, mapped=0):
        text = f"{what}: AnonPages: {anon:+} Shmem: {shared:+}"
        lines.append(text if small else f"{text} Dirty: {dirty:+} Writeback: +0 Mapped: {mapped:+}")

    line("mapped")
    if not small:
        line("read", anon=pages)
    line("written", anon=pages, dirty=pages)
    line("a child wrote half", anon=half, dirty=half)
    line("the child has gone", anon=pages, dirty=pages)
    line("a quarter dropped", anon=pages - quarter, dirty=pages - quarter)
    line("unmapped")
    line("shared", shared=pages, dirty=pages, mapped=pages)
    line("unmapped")
    line("a file in memory", shared=pages, dirty=pages)
    line("half of it mapped", shared=pages, dirty=pages, mapped=half)
    line("cut to a quarter", shared=quarter, dirty=quarter)
    line("removed")
    line("a file mapped", mapped=quarter)
    line("unmapped")
    return lines


@pytest.mark.parametrize("size, pages", [("64M", 1000), ("2M", 2000)], ids=["fits", "small-cache"])
def test_memory_is_told_to_the_page(pool, programs, size, pages):
    cluster = pool.get("--excache", size, *TWO_MEMORIES)
    cluster.run([BUSYBOX, "true"])
    small = size == "2M"
    argv = [programs / "glibc-static/meminfo", "/data/text.small", str(pages)]
    got = cluster.run(argv + ["small"] * small)
    assert got.err == b""
    lines, want = got.out.decode().splitlines(), usage(pages, small)
    if small:  # a page of the program's own may be at its owner in one look and here in the next
        assert [re.sub(r"Pages: \S+", "", line) for line in lines] == [
            re.sub(r"Pages: \S+", "", line) for line in want]  # fmt: skip
        anon = [[int(re.search(r"Pages: (\S+)", x)[1]) for x in side] for side in (lines, want)]
        assert all(abs(a - b) <= 2 for a, b in zip(*anon, strict=True)), lines
    else:
        assert lines == want
    assert cluster.stats()["p0"]["excache.stored"] == 0


def test_major_faults(pool, programs):
    """What does not fit into the cache is fetched again: /proc/<pid>/stat tells both kinds."""
    cluster = pool.get("--excache", "2M", *TWO_MEMORIES)
    before = cluster.stats()["p0"]["excache.fetches"]
    out = cluster.run([programs / "glibc-static/majors"]).checked().decode()
    fetched = cluster.stats()["p0"]["excache.fetches"] - before
    first, again, told, minor = (int(x) for x in out.split())
    assert first < 500 and 2000 < again <= told < fetched + 500 and minor > 3000, out


def test_descriptors_of_directories_there(plain):
    """Links of /proc/self/fd lead to directories of /proc and /sys, and say so when their process
    is gone.
    """
    script = """
        exec 3</proc 4</proc/self/task 5</proc/$$/fd 6</proc/$$ 7</sys/devices/system/cpu
        for i in 3 4 5 6 7; do readlink /proc/$$/fd/$i; done
        cat /proc/$$/fd/3/version | wc -l; cat /proc/$$/fd/6/comm
        ls -d /proc/$$/fd/7/online /proc/$$/fd/5/3
        cd /proc/$$/fd/6 && cat comm && pwd -P; cd /
        sleep 0.1 & exec 6</proc/$!; cd /proc/$!; wait
        readlink /proc/$$/fd/6; stat -c %F:%u /proc/$$/fd/6/; cat /proc/$$/fd/6/stat comm
        ls /proc/$$/fd/6 | wc -l
    """
    argv = ["/usr/bin/busybox", "sh", "-c", script]
    got, want = plain.run(argv), on_host(argv)
    assert re.sub(rb"\d+", b"N", got.out) == re.sub(rb"\d+", b"N", want.out)
    assert got.status == want.status
