# SPDX-License-Identifier: MIT
"""Programs that check every page they own, while nodes are stopped, killed and started again, and
messages are late, come twice or not at all: never a wrong byte, never a hang, one line for each
program that is lost, and nothing left at the end.

How long in all: STRESS_SECONDS (an hour); which faults: STRESS_SEED, which is printed. What is done
when follows from the seed, as far as the timing of the nodes lets it.
"""

import os
import random
import re
import signal
import threading
import time

import pytest
from boot import LaunchError, ProgramRefused, Running, total, wait_for, wait_for_credits
from tessera_launcher import frames, run
from tessera_launcher.streams import Capture
from test_soak import ON_PROCESSOR

SECONDS = float(os.environ.get("STRESS_SECONDS", "3600"))
AT_ONCE = 3
PROGRAM_S = (3, 12)
PAGES = (200, 3000)
HANG_S = 150.0  # for a program of a few seconds, whatever is away meanwhile
SETTLE_S = 90.0
LEASE_S = 8.0
SHAPE = ("--processors", "2", "--memories", "2", "--vregion", "2M", "--excache", "4M",
         "--append", "cluster.heartbeat_ms=500",
         "--append", f"storage:cluster.lease_ms={LEASE_S * 1000:.0f}")  # fmt: skip
ON_MEMORY = ("memory.frames_used", "memory.frames_pinned", "memory.committed", "memory.spaces",
             "memory.aspaces", "memory.vregions", "memory.vmas")  # fmt: skip
ON_STORAGE = ("storage.held", "storage.claims")
LOST_NODE = re.compile(r"(?:node )?(\w\d)(?: is gone| was killed by|: this node was fenced|"
                       r" is started again| ended with)")  # fmt: skip
# A file in memory of which a part is lost says so to who reads or writes it, as a bad disk does.
LOST_FILE = re.compile(rb"tmpfs page \d+ cannot be (read|written|dropped): Input/output error\n")
LOST_IN_LOG = re.compile(r"error: process: node \d+ is gone.*\(pid (\d+)\)")


class Faults(threading.Thread):
    """Does one thing after the other to the nodes, or to the messages, until told to stop."""

    def __init__(self, cluster, seed, steps, pause):
        super().__init__(daemon=True)
        self.cluster = cluster
        self.rng = random.Random(seed)
        self.steps = steps  # by weight
        self.pause = pause
        self.done = []  # (when it began, what)
        self.error = None
        self.ending = threading.Event()

    def run(self):
        kinds, weights = zip(*self.steps.items(), strict=True)
        try:
            while not self.ending.wait(self.rng.uniform(*self.pause)):
                step = self.rng.choices(kinds, weights)[0]
                step(self)
        except BaseException as err:
            self.error = err

    def note(self, text):
        self.done.append((time.monotonic(), text))
        print(f"{time.monotonic() - self.cluster.started:7.1f} {text}", flush=True)

    def sleep(self, low, high):
        time.sleep(self.rng.uniform(low, high))

    def end(self):
        self.ending.set()
        self.join(240)
        assert not self.is_alive(), f"stuck in {self.done[-1:]}"
        if self.error:
            raise self.error


# Faults of nodes: one at a time.


def node(f, but=()):
    return f.rng.choice([n.name for n in f.cluster.cluster.plan.nodes if n.name not in but])


def up(f, name, limit=90.0):
    state = f.cluster.cluster.state
    end = time.monotonic() + limit
    while state(name) != "up":
        assert time.monotonic() < end, f"{name} does not come back: {state(name)}"
        time.sleep(0.1)


def stand_still(f):
    """For less than a lease; the node of the managers as long as one likes."""
    name = node(f)
    f.note(f"stop {name}")
    f.cluster.cluster.kill_node(name, signal.SIGSTOP)
    f.sleep(0.1, LEASE_S * (1.5 if name == "s0" else 0.4))
    f.cluster.cluster.kill_node(name, signal.SIGCONT)
    f.note(f"continue {name}")


def fenced(f):
    """For longer than a lease: the others go on without it, and it comes back as a new one."""
    name = node(f, but=("s0",))
    f.note(f"fence {name}")
    cluster = f.cluster.cluster
    cluster.kill_node(name, signal.SIGSTOP)
    wait_for(lambda: cluster.state(name) != "up", 60)
    f.sleep(0, 3)
    cluster.kill_node(name, signal.SIGCONT)
    up(f, name)
    f.note(f"{name} is back")


def killed(f):
    name = node(f)
    f.note(f"kill {name}")
    cluster = f.cluster.cluster
    cluster.kill_node(name)
    wait_for(lambda: cluster.state(name) != "up", 30)
    f.sleep(0, 6)
    cluster.restart(name)
    up(f, name)
    f.note(f"{name} was started again")


def restarted(f):
    name = node(f)
    f.note(f"restart {name}")
    f.cluster.cluster.restart(name)
    up(f, name)
    f.note(f"{name} was started again")


NODE_FAULTS = {stand_still: 6, fenced: 1, killed: 3, restarted: 1}

# Faults of messages.


def inject(f, command, undo=None, low=0.5, high=6.0):
    """A board that has just gone cannot be commanded."""
    for text in (command, undo):
        if not text:
            continue
        f.note(text)
        try:
            f.cluster.cluster.inject(text)
        except LaunchError as err:
            f.note(str(err))
        if text == command and undo:
            f.sleep(low, high)


def lid(f):
    return f.rng.choice([n.lid for n in f.cluster.cluster.plan.nodes])


def two(f):
    return " ".join(str(n.lid) for n in f.rng.sample(f.cluster.cluster.plan.nodes, 2))


def delayed(f):
    inject(f, f"delay {f.rng.choice(['all', lid(f)])} {f.rng.randint(1, 30)}", "delay off")


def duplicated(f):
    inject(f, f"duplicate all {f.rng.randint(10, 100)}", "duplicate all 0")


def dropped(f):
    inject(f, f"lose all {f.rng.randint(5, 50)}", "lose all 0")


def broken(f):
    inject(f, f"break {two(f)}")


def broken_often(f):
    inject(f, f"break random every {f.rng.randint(100, 800)} {f.rng.randint(1, 999)}",
           "break random off")  # fmt: skip


def held(f):
    inject(f, f"hold {two(f)}", "release", 0.1, 2)


def failed_message(f):
    inject(f, f"error {lid(f)} {f.rng.choice([1, 4, 5, 0x15, 0x22])}")


def failed_board(f):
    inject(f, f"catas {lid(f)}")
    f.sleep(2, 4)


MESSAGE_FAULTS = {delayed: 4, duplicated: 3, dropped: 3, broken: 3, broken_often: 1, held: 2,
                  failed_message: 2, failed_board: 1}  # fmt: skip


# Programs, and what became of them.


class Owner:
    """One program that owns pages."""

    def __init__(self, running, path, where, seed, pages, seconds):
        self.began = time.monotonic()
        self.where = where
        self.what = f"ownpages {seed} {pages} {seconds} on {where}"
        self.capture = Capture()
        argv = [str(path), str(seed), str(pages), str(seconds), "/data/text.small"]
        request = frames.Run(argv[0], argv, run.environment([]), "/data")
        self.program = running.cluster.start_program(request, self.capture.sink, where)
        self.capture.attach(self.program)

    def verdict(self, lost_since):
        """None while it runs; else "right", "lost", "told" of a lost file, or what is wrong."""
        program = self.program
        if not program.over:
            old = time.monotonic() - self.began
            return None if old < HANG_S else f"hangs since {old:.0f} s"
        out, err = bytes(self.capture.data[1]), bytes(self.capture.data[2])
        try:
            program.wait(time.monotonic())
        except ProgramRefused as why:
            return "lost" if lost_since(self.began) else f"refused: {why}"
        except LaunchError as why:
            found = LOST_NODE.search(str(why))
            if "\n" in str(why).strip() or not found:
                return f"ended with {str(why)!r}"
            return "lost" if found[1] in lost_since(self.began) else f"lost for nothing: {why}"
        status = run.exit_status(program.exit.status)
        if (status, out, err) == (0, b"all pages are right\n", b""):
            return "right"
        if (status, out) == (1, b"") and LOST_FILE.fullmatch(err) and any(
            name[0] == "m" for name in lost_since(self.began)
        ):
            return "told"
        return f"status {status}, {out!r}, {err!r}"


class Stress:
    def __init__(self, running, path, seed):
        self.running = running
        self.path = path
        self.rng = random.Random(f"{seed} programs")
        self.nodes = Faults(running, f"{seed} nodes", NODE_FAULTS, (1, 5))
        self.messages = Faults(running, f"{seed} messages", MESSAGE_FAULTS, (0.2, 3))
        self.owners = []
        self.counts = {"right": 0, "lost": 0, "told": 0, "not started": 0}

    def lost_since(self, when):
        """Nodes that have gone since, or went shortly before: news take a lease."""
        return {text.split()[1] for at, text in self.nodes.done
                if at > when - 2 * LEASE_S and text.split()[0] in ("kill", "fence", "restart")
                }  # fmt: skip

    def start(self):
        names = [n.name for n in self.running.cluster.plan.nodes if n.role == "processor"]
        where = self.rng.choice(names)
        seed = self.rng.randrange(1 << 30)
        pages, seconds = self.rng.randint(*PAGES), self.rng.randint(*PROGRAM_S)
        if self.running.cluster.state(where) != "up":
            time.sleep(0.2)
            return
        try:
            self.owners.append(Owner(self.running, self.path, where, seed, pages, seconds))
        except LaunchError as why:
            assert where in self.lost_since(time.monotonic()), f"not started: {why}"
            self.counts["not started"] += 1

    def collect(self):
        for owner in list(self.owners):
            verdict = owner.verdict(self.lost_since)
            if verdict is None:
                continue
            assert verdict in self.counts, f"{owner.what}: {verdict}"
            self.counts[verdict] += 1
            self.owners.remove(owner)

    def run(self, seconds):
        end = time.monotonic() + seconds
        self.nodes.start()
        self.messages.start()
        while time.monotonic() < end:
            for faults in (self.nodes, self.messages):
                if faults.error:
                    raise faults.error
            assert self.running.alive, self.running.cluster.failure
            if len(self.owners) < AT_ONCE:
                self.start()
            self.collect()
            time.sleep(0.05)
        self.nodes.end()
        self.messages.end()
        while self.owners:
            self.collect()
            time.sleep(0.05)
        print(f"programs: {self.counts}", flush=True)


def said_once(running):
    """Of each program that was lost, one line in its processor's logs."""
    for path in sorted(running.log_dir.glob("p*.log")):
        pids = LOST_IN_LOG.findall(path.read_text(errors="replace"))
        assert len(pids) == len(set(pids)), f"{path.name}: {pids}"


def counters(running):
    stats = running.stats()
    processors = [n for n in stats if n[0] == "p"]
    memories = [n for n in stats if n[0] == "m"]
    out = {(n, name): stats[n][name] for n in memories for name in ON_MEMORY}
    out |= {(n, name): stats[n][name] for n in processors for name in ON_PROCESSOR}
    out |= {(n, "excache.stored"): stats[n]["excache.stored"] for n in processors}
    out |= {(n, name): stats[n][name] for n in stats if n[0] == "s" for name in ON_STORAGE}
    # Frames are used, of files, or free; each credit is one that a processor has.
    for n in memories:
        s = stats[n]
        parts = ("used", "pinned", "file", "zeroed", "dirty")
        out[n, "frames of no kind"] = s["memory.frames_total"] - sum(
            s[f"memory.frames_{part}"] for part in parts
        )
    held = total({n: stats[n] for n in processors}, "credit.held")
    promised = total({n: stats[n] for n in memories}, "memory.frames_reserved")
    out["all", "credits that no processor has"] = promised - held
    return out


def settled(running):
    """The counters once what the first programs have left is gone, too."""
    wait_for_credits("credit.held", running.stats)
    seen = counters(running)
    for _ in range(int(SETTLE_S)):
        time.sleep(1)
        now = counters(running)
        if now == seen and not any(now[k] for k in now if k[1] == "memory.frames_pinned"):
            return now
        seen = now
    raise AssertionError(f"not settled within {SETTLE_S:g} s: {seen}")


def adds_up(running, before):
    """Every account is what it was before the first program."""
    end = time.monotonic() + SETTLE_S
    while True:
        now = counters(running)
        wrong = {key: (before[key], now[key]) for key in before if now[key] != before[key]}
        if not wrong or time.monotonic() > end:
            break
        time.sleep(0.5)
    assert not wrong, wrong
    cluster = running.cluster
    assert {cluster.state(n.name) for n in cluster.plan.nodes} == {"up"}
    assert set(cluster.members) == {n.node for n in cluster.plan.nodes}


@pytest.mark.long
def test_pages_are_right_whatever_fails(disk, programs):
    seed = os.environ.get("STRESS_SEED") or str(random.randrange(1 << 30))
    print(f"STRESS_SEED={seed} STRESS_SECONDS={SECONDS:g}", flush=True)
    running = Running(SHAPE, disk, "stress", stays=True).up()
    path = programs / "glibc-static/ownpages"
    try:
        warm = [Owner(running, path, n, 1, 200, 1) for n in ("p0", "p1")]
        for owner in warm:
            assert owner.program.wait(time.monotonic() + HANG_S)
        wait_for(lambda: not running.stats()["m0"]["memory.aspaces"], SETTLE_S)
        before = settled(running)
        stress = Stress(running, path, seed)
        stress.run(SECONDS)
        assert stress.counts["right"] > 0
        said_once(running)
        adds_up(running, before)
    finally:
        running.close()
    assert not running.complaints(), "\n".join(running.complaints())
