# SPDX-License-Identifier: MIT
"""./tessera up, exec, ps and down from outside, and several programs in one run."""

import errno
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
from types import SimpleNamespace

import pytest
from conftest import Launcher, fakes_of
from tessera_launcher import client, keeper, registry
from test_run import sh, wait_for


NETWORK = "network: 10.0.2.15, fec0::1 (QEMU's user network, through p0)"


@pytest.fixture
def state(launcher, tmp_path):
    """Where the directories of clusters are; at the end there is none, and no process."""
    where = tmp_path / "tessera"
    yield where
    launcher.call("down", "--all")
    assert wait_for(lambda: not [p for p in where.glob("*") if p.name != ".lock"])
    assert wait_for(lambda: not fakes_of(launcher.build))
    assert not list(launcher.run_dir.iterdir())


def up(launcher) -> Launcher:
    done = launcher.call("up", "--processors", "2", "sh", "cat", "sleep")
    assert done.returncode == 0, done.stderr
    assert b"cluster default is up: 2 processors, 1 memory, 1 storage" in done.stdout
    assert f"\n{NETWORK}\n".encode() in done.stdout
    return launcher


@pytest.fixture
def cluster(launcher, state):
    return up(launcher)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A cluster for tests that leave it as it was."""
    tmp = tmp_path_factory.mktemp("shared")
    launcher = Launcher(tmp)
    launcher.env = os.environ | {
        "TESSERA_RUN_DIR": str(launcher.run_dir),
        "XDG_RUNTIME_DIR": str(tmp),
    }
    yield up(launcher)
    launcher.call("down")


def test_results_come_out_at_down(launcher, state, tmp_path):
    """What cannot come is told by down, and the rest is there; so is a line in the log."""
    top, back = tmp_path / "top", tmp_path / "back"
    for part in (top / "res", back):
        part.mkdir(parents=True)
        (part / "a").write_text("result")
    done = launcher.call("up", "--rootfs", top, "--output", f"/res:{tmp_path}/res", "--rw",
                         f"{back}:/back", "--output", f"/none:{tmp_path}/none", "--commit",
                         tmp_path / "new.img", "--log-dir", tmp_path / "logs")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "res").exists() and not (tmp_path / "new.img").exists()
    done = launcher.call("down")
    why = b"--output: the root file system:/none: no such file"
    assert (done.returncode, done.stderr) == (125, b"tessera: " + why + b"\n")
    assert (tmp_path / "res" / "a").read_text() == (back / "a").read_text() == "result"
    assert (tmp_path / "new.img").stat().st_size > 0
    assert why in (tmp_path / "logs" / "launcher.log").read_bytes()


def test_down_tells_that_results_were_lost(launcher, state, tmp_path):
    """The keeper is killed while the machines end."""
    (tmp_path / "top" / "res").mkdir(parents=True)
    done = launcher.call("up", "--rootfs", tmp_path / "top", "--output", f"/res:{tmp_path}/res")
    assert done.returncode == 0, done.stderr
    os.kill(pid_of(launcher, "s0"), signal.SIGSTOP)  # it ends last: not by itself
    memory = pid_of(launcher, "m0")
    child = background(launcher, "down")
    assert wait_for(lambda: not os.path.exists(f"/proc/{memory}"))
    os.kill(keeper_pid(state), signal.SIGKILL)
    _, err = child.communicate(timeout=30)
    why = b"tessera: cluster default ended before its results were out\n"
    assert (child.returncode, err) == (125, why)


@pytest.mark.parametrize("lines, why", [
    ([{"bringing": True}, {"done": True}], ""),
    ([{"bringing": True}, {"error": "no room"}], "no room"),
    ([{"bringing": True}], "cluster x ended before its results were out"),
    ([], "cluster x ended before its results were out"),
])  # fmt: skip
def test_the_last_words_of_a_keeper(lines, why):
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            for line in lines:
                keeper.write_line(theirs, **line)
        entry = registry.Entry("x", 1, "/nowhere")
        assert client._farewell(entry, ours, True) == why


def test_nothing_that_fails_while_results_come_out_is_silent(tmp_path):
    """Whatever it is; the line is in the log as well."""

    def fail() -> None:
        raise OSError(errno.EIO, "a disk that breaks")

    side = SimpleNamespace(o=None, brings_out=True, bring_out=fail)
    plan = SimpleNamespace(log_dir=str(tmp_path / "logs"))
    cluster = SimpleNamespace(plan=plan, keep_logs=lambda: None)
    claim = SimpleNamespace(name="x", listen=lambda: None)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            served = keeper.Keeper(side, cluster, claim, False)
            served._leaving.append(theirs)
            served.bring_out()
        why = client._farewell(registry.Entry("x", 1, "/nowhere"), ours, True)
    assert why == "launcher: OSError: [Errno 5] a disk that breaks"
    assert (tmp_path / "logs" / "launcher.log").read_text() == why + "\n"


def background(launcher, *args, **how) -> subprocess.Popen:
    how.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(launcher.words(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=launcher.env, **how)  # fmt: skip


def keeper_pid(state: pathlib.Path, name: str = "default") -> int:
    return int(next(state.glob(f"{name}.*")).name.rpartition(".")[2])


def pid_of(launcher, node: str) -> int:
    for pid in fakes_of(launcher.build):
        if f"tessera-{node}\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise AssertionError(f"no process of {node}")


def test_streams_and_status_are_exact(shared):
    data = random.Random(1).randbytes(2_000_000)
    done = shared.call("exec", *sh("cat; echo to stderr >&2; exit 42"), input=data)
    assert (done.returncode, done.stderr) == (42, b"to stderr\n")
    assert done.stdout == data
    assert shared.call("exec", *sh("kill -9 $$")).returncode == 137
    done = shared.call("exec", "--env", "X=1 2", "--cwd", "/usr", *sh('echo "$X $PWD"'))
    assert done.stdout == b"1 2 /usr\n"


def test_several_at_once_each_with_its_own_streams(shared):
    running = [
        background(shared, "exec", *sh(f"cat; exit {i}"), stdin=subprocess.PIPE) for i in range(6)
    ]
    for i, child in enumerate(running):
        assert child.communicate(b"%d\n" % i * 50_000, timeout=60)[0] == b"%d\n" % i * 50_000
        assert child.returncode == i


def test_signals_are_passed_on(shared):
    child = background(
        shared, "exec", *sh("trap 'echo got; exit 7' USR1; echo ready; while :; do sleep .05; done")
    )
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGUSR1)
    assert child.communicate(timeout=30)[0] == b"got\n"
    assert child.returncode == 7


@pytest.mark.parametrize("how", [signal.SIGKILL, "timeout"])
def test_a_program_ends_with_its_exec(shared, tmp_path, how):
    mark = tmp_path / "pid"
    options = ["--timeout", "2"] if how == "timeout" else []
    child = background(shared, "exec", *options, *sh(f"echo $$ > {mark}; exec sleep 1000"))
    assert wait_for(lambda: mark.exists() and mark.read_text())
    if how != "timeout":
        child.kill()
    child.communicate(timeout=30)
    assert child.returncode == (124 if how == "timeout" else -9)
    assert wait_for(lambda: not os.path.exists(f"/proc/{mark.read_text().strip()}"))
    assert shared.call("exec", *sh("echo on")).stdout == b"on\n"


def test_what_is_not_there_is_said_in_one_line(shared):
    done = shared.call("exec", "/nonexistent/program")
    assert done.returncode == 127 and done.stderr.count(b"\n") == 1
    assert b"./tessera up was given" in done.stderr
    done = shared.call("exec", "--processor", "7", "sh")
    assert (done.returncode, done.stderr) == (
        125,
        b"tessera: there is no processor p7 in cluster default\n",
    )
    done = shared.call("exec", "--name", "other", "sh")
    assert (done.returncode, done.stderr) == (125, b"tessera: no cluster other is up\n")


def test_ps_shows_nodes_and_programs(shared):
    child = background(shared, "exec", "--processor", "1", *sh("echo ready; exec sleep 1000"))
    child.stdout.readline()
    text = shared.call("ps").stdout.decode()
    assert text.startswith("cluster default, up for 0:00:")
    assert re.search(r"^  p1   processor  1 CPU, \d+ MiB +up$", text, re.MULTILINE)
    assert f"\n  {NETWORK}\n" in text
    assert re.search(
        r"^  p1 +42 +0:00:\d\d  /bin/sh -c echo ready; exec sleep 1000$", text, re.MULTILINE
    )
    child.kill()
    child.communicate()
    assert wait_for(lambda: b"sleep" not in shared.call("ps").stdout)


def test_a_lost_processor_takes_only_its_programs_along(cluster):
    stays = background(
        cluster, "exec", "--processor", "0", *sh("echo ready; cat; exit 5"), stdin=subprocess.PIPE
    )
    goes = background(cluster, "exec", "--processor", "1", *sh("echo ready; exec sleep 1000"))
    assert stays.stdout.readline() == goes.stdout.readline() == b"ready\n"
    os.kill(pid_of(cluster, "p1"), signal.SIGKILL)
    _, err = goes.communicate(timeout=30)
    assert goes.returncode == 125
    assert err.startswith(b"tessera: node p1 was killed by signal 9") and err.count(b"\n") == 1
    assert stays.communicate(b"on and on", timeout=30)[0] == b"on and on"
    assert stays.returncode == 5
    assert b"node p1 was killed" in cluster.call("ps").stdout
    done = cluster.call("exec", "--processor", "1", *sh("exit 0"))
    assert done.returncode == 125 and b"node p1 was killed" in done.stderr
    assert {cluster.call("exec", *sh("exit 3")).returncode for _ in range(3)} == {3}


def test_exec_tells_where_it_is(shared):
    done = shared.call("exec", "-v", "--processor", "1", *sh("exit 3"))
    assert done.returncode == 3
    assert done.stderr.decode() == f"tessera: p1 of cluster default; {NETWORK}\n"


@pytest.mark.parametrize("args, line", [
    (["--net", "none"], "network: none"),
    (["--publish", "PORT:80"],
     "network: 10.0.2.15, fec0::1 (QEMU's user network, through p0); published:"
     " 127.0.0.1:PORT -> 80/tcp"),
])  # fmt: skip
def test_what_is_told_of_the_network(launcher, state, args, line):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = str(s.getsockname()[1])
    done = launcher.call("up", *(a.replace("PORT", port) for a in args), "sh")
    assert line.replace("PORT", port) in done.stdout.decode().splitlines(), done.stderr
    assert "  " + line.replace("PORT", port) in launcher.call("ps").stdout.decode().splitlines()


def test_the_network_of_a_gateway_that_is_lost(cluster):
    os.kill(pid_of(cluster, "p0"), signal.SIGKILL)
    line = b"  network: no address (QEMU's user network, no gateway)\n"
    assert wait_for(lambda: line in cluster.call("ps").stdout)


def test_ps_into_a_pipe_that_closes(shared):
    line = " ".join(shared.words("ps")) + " | true; echo ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, timeout=60, env=shared.env)
    assert done.stderr == b"" and done.stdout in (b"0\n", b"141\n")


def test_names(cluster, state):
    done = cluster.call("up", "sh")
    assert done.returncode == 125 and b"cluster default is up already" in done.stderr
    assert cluster.call("up", "--name", "b", "sh").returncode == 0
    done = cluster.call("exec", *sh("exit 0"))
    assert (done.returncode, done.stderr) == (125, b"tessera: which cluster? --name b or default\n")
    assert cluster.call("exec", "--name", "b", *sh("exit 4")).returncode == 4
    assert cluster.call("down", "--name", "b").returncode == 0
    assert cluster.call("exec", *sh("exit 6")).returncode == 6


def test_down_ends_everything_and_says_so_to_programs(cluster, state):
    child = background(cluster, "exec", *sh("echo ready; exec sleep 1000"))
    child.stdout.readline()
    assert cluster.call("down").returncode == 0
    assert not list(state.glob("default.*"))
    assert fakes_of(cluster.build) == []
    assert child.communicate(timeout=30)[1].count(b"\n") == 1
    assert child.returncode == 125
    done = cluster.call("down")
    assert done.returncode == 125 and b"no cluster is up" in done.stderr
    assert cluster.call("ps").stdout == b"no cluster is up\n"


@pytest.fixture
def two_memories(launcher, state):
    """p0, p1, m0, m1, s0: nodes 1 to 5."""
    done = launcher.call("up", "--processors", "2", "--memories", "2", "sh", "cat", "sleep")
    assert done.returncode == 0, done.stderr
    return launcher


def state_of(launcher, node: str) -> str:
    text = launcher.call("ps").stdout.decode()
    return re.search(rf"^  {node} .* MiB +(.*)$", text, re.MULTILINE)[1]


def log_dir(launcher) -> pathlib.Path:
    return pathlib.Path(re.search(rb"logs: (.*)", launcher.call("ps").stdout)[1].decode())


@pytest.mark.parametrize("node, number", [("m0", 3), ("m1", 4), ("s0", 5), ("p1", 2)])
def test_a_lost_node_leaves_the_cluster_and_can_be_started_again(two_memories, node, number):
    stays = background(
        two_memories, "exec", "--processor", "0", *sh("echo ready; cat; exit 5"),
        stdin=subprocess.PIPE,
    )  # fmt: skip
    assert stays.stdout.readline() == b"ready\n"
    before = pid_of(two_memories, node)
    os.kill(before, signal.SIGKILL)
    assert wait_for(lambda: "was killed by signal 9" in state_of(two_memories, node))
    assert {n: state_of(two_memories, n) for n in ("p0", "m0", "m1", "s0", "p1") if n != node} == {
        n: "up" for n in ("p0", "m0", "m1", "s0", "p1") if n != node
    }
    reported = log_dir(two_memories) / "reported"
    assert node == "s0" or wait_for(lambda: reported.read_text().splitlines()[:1] == [str(number)])
    # New programs run on what is left, also while the managers are away.
    assert {two_memories.call("exec", *sh("exit 3")).returncode for _ in range(3)} == {3}
    done = two_memories.call("up", "--restart", node)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == f"node {node} of cluster default is up again\n".encode()
    assert state_of(two_memories, node) == "up" and pid_of(two_memories, node) != before
    assert (log_dir(two_memories) / f"{node}.2.log").read_text().startswith("fake node")
    words = pathlib.Path(f"/proc/{pid_of(two_memories, node)}/cmdline").read_text()
    again = re.search(r"cluster\.again=(\d+),(\S+?)\0", words)
    assert bool(again) == (node == "s0")
    if again:  # the managers are told who was a member: not themselves, as they have ended
        members = [m.split(":") for m in again[2].split(",")]
        assert [m[0] for m in members] == ["p1", "p2", "m3", "m4"]
        assert int(members[2][1], 16) == pid_of(two_memories, "m0") and members[2][2] == "3"
    if node == "p1":
        assert two_memories.call("exec", "--processor", "1", *sh("exit 8")).returncode == 8
    assert stays.communicate(b"on and on", timeout=30)[0] == b"on and on"
    assert stays.returncode == 5
    assert two_memories.call("exec", *sh("exit 3")).returncode == 3


def test_a_node_that_is_up_is_ended_and_started_again(two_memories):
    goes = background(two_memories, "exec", "--processor", "1", *sh("echo ready; sleep 1000"))
    goes.stdout.readline()
    before = pid_of(two_memories, "p1")
    assert two_memories.call("up", "--restart", "p1").returncode == 0
    assert pid_of(two_memories, "p1") != before
    assert goes.communicate(timeout=30)[1].startswith(b"tessera: node p1 is started again; logs")
    assert goes.returncode == 125
    assert two_memories.call("exec", "--processor", "1", *sh("exit 8")).returncode == 8


def test_a_fenced_node_is_shown_at_once(two_memories):
    assert state_of(two_memories, "m1") == "up"
    time.sleep(0.5)  # until the fake managers have said who is a member
    os.kill(pid_of(two_memories, "s0"), signal.SIGUSR1)
    assert wait_for(lambda: state_of(two_memories, "m1") != "up")
    assert state_of(two_memories, "m1") == "node m1: this node was fenced: its lease had ended"
    # When it ends at last, it comes back by itself.
    os.kill(pid_of(two_memories, "m1"), signal.SIGKILL)
    assert wait_for(lambda: state_of(two_memories, "m1") == "up")


@pytest.mark.parametrize("argv, text", [
    (("--restart", "m7"), b"there is no node m7"),
    (("--restart", "memory"), b"--restart: 'memory' is not a node (such as m0)"),
    (("--restart", "m0", "--memories", "2"), b"--restart is for a cluster that is up"),
    (("--restart", "m0", "sh"), b"--restart is for a cluster that is up"),
    (("--restart", "m0", "--name", "other"), b"no cluster other is up"),
])  # fmt: skip
def test_restarts_that_make_no_sense_are_refused(shared, argv, text):
    done = shared.call("up", *argv)
    assert done.returncode == 125 and text in done.stderr and done.stderr.count(b"\n") == 1


def test_a_node_that_does_not_come_again_is_shown(two_memories):
    os.kill(pid_of(two_memories, "m1"), signal.SIGKILL)
    (log_dir(two_memories) / "m1.broken").touch()
    done = two_memories.call("up", "--restart", "m1")
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1
    assert b"node m1 ended with status 3: panic: the fake was told to" in done.stderr
    assert "ended with status 3" in state_of(two_memories, "m1")
    (log_dir(two_memories) / "m1.broken").unlink()
    assert two_memories.call("up", "--restart", "m1").returncode == 0


@pytest.mark.parametrize("whom", ["keeper", "supervisor"])
def test_sigkill_of_anything_leaves_nothing(cluster, state, whom):
    keeper = keeper_pid(state)
    if whom == "keeper":
        victim = keeper
    else:
        victim = int(pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])
    os.kill(victim, signal.SIGKILL)
    assert wait_for(lambda: not fakes_of(cluster.build))
    assert wait_for(lambda: not list(cluster.run_dir.iterdir()))
    assert wait_for(lambda: not list(state.glob("default.*")))
    assert cluster.call("up", "sh").returncode == 0  # the name is free again


def test_both_keeper_and_supervisor_killed(cluster, state):
    keeper = keeper_pid(state)
    supervisor = int(pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])
    os.kill(keeper, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    assert wait_for(lambda: not fakes_of(cluster.build))
    assert cluster.call("ps").stdout == b"no cluster is up\n"
    assert not list(state.glob("default.*"))
    # the next run on /dev/shm removes it; here it is elsewhere
    for left in cluster.run_dir.iterdir():
        subprocess.run(["rm", "-r", left], check=True)


def test_a_cluster_that_does_not_come_up_is_told_and_gone(launcher, state):
    done = launcher.call("up", "--append", "m0:fake=panic", "sh")
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1
    assert b"node m0 ended with status 3: panic: the fake was told to" in done.stderr
    assert not list(state.glob("default.*"))
    log_dir = done.stderr.decode().rstrip().rsplit("logs: ", 1)[1]
    assert os.path.exists(f"{log_dir}/m0.host.log")


def test_interrupted_while_booting(launcher, state):
    child = background(launcher, "up", "--append", "p0:fake=silent", "sh")
    assert wait_for(lambda: len(fakes_of(launcher.build)) >= 6)
    time.sleep(0.3)
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 143
    child.communicate()


def test_up_holds_nothing_of_its_caller(launcher, state):
    line = " ".join(launcher.words("up", "sh")) + " | cat"
    done = subprocess.run(
        line, shell=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert b"is up" in done.stdout and done.stderr == b""


@pytest.mark.parametrize(
    "text", [b"\n", b"[]\n", b"{}\n", b'{"op":"exec"}\ngarbage', b"x" * 100_000]
)
def test_a_hostile_client_harms_nobody(shared, text):
    with socket.socket(socket.AF_UNIX) as sock:
        where = os.open(next((shared.run_dir.parent / "tessera").glob("default.*")), os.O_RDONLY)
        sock.connect(f"/proc/self/fd/{where}/sock")
        os.close(where)
        try:
            sock.sendall(text)
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(10)
            while sock.recv(4096):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert shared.call("exec", *sh("exit 9")).returncode == 9


# Several programs in one run.


def test_programs_of_a_run_have_labelled_lines(launcher, state):
    done = launcher.run("--processors", "2", *sh("echo a; echo b >&2; printf c"), ":::",
                        *sh("cat; echo d; exit 3"), ":::", *sh("exit 4"), input=b"not for these")
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == [b"1| a", b"1| c", b"2| d"]
    assert done.stderr == b"1| b\n"


def test_a_run_goes_on_without_a_lost_processor(launcher, state, tmp_path):
    go = tmp_path / "go"
    child = subprocess.Popen(
        launcher.command(
            "--processors", "2", *sh(f"until [ -e {go} ]; do sleep .1; done; echo done"),
            ":::", *sh("echo ready; sleep 1000"),
        ),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout.readline() == b"2| ready\n"
    os.kill(pid_of(launcher, "p1"), signal.SIGKILL)
    go.touch()
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (125, b"1| done\n")
    assert err.startswith(b"tessera: program 2 (/bin/sh): node p1 was killed by signal 9; logs: ")
