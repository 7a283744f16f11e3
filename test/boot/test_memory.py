# SPDX-License-Identifier: MIT
"""Heaps larger than the cache, two owners, moving owners, exhaustion; results and counters."""

import time

import pytest
from boot import MB, TWO_MEMORIES, by_shape, delta, on_host, total

PAGE = 4096
SMALL_CACHE = ("--excache", "8M")


def heap(cluster, programs, what, megabytes, limit=600.0):
    """Run a heap program, compare with the host; the counters before and after."""
    argv = [programs / "glibc-static/heap", what, str(megabytes)]
    before = cluster.stats()
    got = cluster.run(argv, limit=limit)
    after = cluster.stats()
    assert got == on_host(argv)
    return before, after


def check_evictions(before, after, megabytes):
    """A heap of this size went through a cache of 8 MiB: its pages came back and went out."""
    pages = megabytes * MB // PAGE
    assert delta(before, after, "p0", "excache.misses") >= pages
    assert delta(before, after, "p0", "excache.writebacks") >= pages - 8 * MB // PAGE
    assert delta(before, after, "p0", "excache.plocal") >= pages


@pytest.mark.parametrize("what, megabytes, shape", [
    pytest.param("sort", 16, (), id="one-memory-sort-16"),
    pytest.param("hash", 32, (), id="one-memory-hash-32"),
    pytest.param("hash", 32, TWO_MEMORIES, id="two-memories-hash-32"),
    *[pytest.param("sort", 32, shape, id=f"{name}-sort-32", marks=pytest.mark.long)
      for name, shape in (("one-memory", ()), ("two-memories", TWO_MEMORIES))],
    *[pytest.param(what, 128, shape, id=f"{name}-{what}-128", marks=pytest.mark.long)
      for what in ("sort", "hash") for name, shape in (("one-memory", ()), ("two-memories",
                                                                            TWO_MEMORIES))],
])  # fmt: skip
def test_heap_larger_than_the_cache(pool, programs, what, megabytes, shape):
    cluster = pool.get(*SMALL_CACHE, *shape)
    before, after = heap(cluster, programs, what, megabytes)
    check_evictions(before, after, megabytes)
    if what == "hash":  # most pages that are fetched ahead are read where they lie
        ahead = delta(before, after, "p0", "excache.prefetched")
        assert ahead >= megabytes * MB // PAGE // 2
        assert delta(before, after, "p0", "prefetch.read_pages") >= ahead // 2
    if shape:
        for node in ("m0", "m1"):
            assert delta(before, after, node, "memory.fetch") > 0


@pytest.mark.parametrize("policy", ["fifo", "clock", "drrip"])
def test_replacement_policies(pool, programs, policy):
    """A heap of twice the cache's size under each policy; CLOCK sees that pages are used."""
    cluster = pool.get(*SMALL_CACHE, "--append", f"processor:excache.policy={policy}")
    before, after = heap(cluster, programs, "sort", 16)
    check_evictions(before, after, 16)
    chances = delta(before, after, "p0", "excache.second_chances")
    assert chances > 0 if policy == "clock" else chances == 0


def test_first_touch_sends_nothing(plain, programs):
    """p-local lines: 8,000 more fresh pages, and hardly a request more than for 256."""
    argv = [programs / "glibc-static/heap", "touch", "1"]
    plain.run(argv)  # its text is cached now
    before = plain.stats()
    plain.run(argv)
    small = plain.stats()
    plain.run([programs / "glibc-static/heap", "touch", "33"])
    large = plain.stats()

    def extra(counter):
        return delta(small, large, "p0", counter) - delta(before, small, "p0", counter)

    touches = extra("excache.plocal")
    assert touches >= 32 * MB // PAGE
    assert extra("excache.fetches") == 0
    # Frame credits come in chunks, and the nodes have a few words to say meanwhile.
    assert extra("rpc.requests") <= touches / 100


def test_everything_is_freed_at_exit(cluster, programs):
    """Frames of programs and address spaces are back to where they were; file pages may stay."""
    argv = [programs / "glibc-static/heap", "touch", "24"]
    crash = [programs / "glibc-static/crash", "null"]
    cluster.run(argv)
    cluster.run(crash)  # another file, another cache node: by now every connection has its rings
    before = cluster.stats()
    for _ in range(3):
        cluster.run(argv)
    cluster.run(crash)
    after = cluster.stats()
    for node in [n for n in after if n[0] == "m"]:
        for counter in ("memory.frames_used", "memory.spaces", "memory.vmas", "memory.committed"):
            assert delta(before, after, node, counter) == 0, f"{node} {counter}"
    assert delta(before, after, "p0", "process.processes") == 0
    assert before["p0"]["frame.free"] - after["p0"]["frame.free"] < 64


def test_memory_runs_out_with_enomem(pool, programs):
    cluster = pool.get("--memory", "memory=128M", "--append", "memory:memory.overcommit=2")
    for _ in range(2):
        got = cluster.run([programs / "glibc-static/exhaust", "4"], limit=300)
        assert got.checked() == b"refused, checked, given back, and going on\n"
    assert cluster.run([programs / "musl-static/hello"]).status == 0


class Steps:
    """heap steps: a program that reads its heap once for every byte of input."""

    def __init__(self, cluster, programs, megabytes):
        self.program, self.capture = cluster.start(
            [str(programs / "glibc-static/heap"), "steps", str(megabytes)]
        )
        word, address, self.hash = self.lines(1)[0].split()
        assert word == b"ready"
        self.address = int(address, 16)

    def lines(self, count):
        deadline = time.monotonic() + 120
        while self.capture.data[1].count(b"\n") < count:
            assert time.monotonic() < deadline and not self.program.over, bytes(
                self.capture.data[2]
            )
            time.sleep(0.01)
        return bytes(self.capture.data[1]).splitlines()

    def step(self):
        """One pass; the contents must be the same as ever."""
        seen = self.capture.data[1].count(b"\n")
        assert self.program.write_stdin(b".")
        assert self.lines(seen + 1)[-1].split()[2] == self.hash

    def end(self):
        self.program.close_stdin()
        assert self.program.wait(time.monotonic() + 60)
        assert self.program.exit.status == 0


@pytest.mark.parametrize("onesided", ["on", pytest.param("off", marks=pytest.mark.long)])
@by_shape(long="one-memory")
def test_a_clean_miss_is_one_read_or_one_request(pool, programs, shape, onesided):
    """Nothing is dirty and the heap is three times the cache: each page is fetched, and nothing
    else: by a read of its frame at the owner, or by a request and its reply.
    """
    cluster = pool.get(*SMALL_CACHE, *shape, "--append",
                       f"processor:prefetch=off excache.onesided={onesided}")  # fmt: skip
    steps = Steps(cluster, programs, 24)
    before = cluster.stats()
    for _ in range(2):
        steps.step()
    after = cluster.stats()
    steps.end()
    fetches = delta(before, after, "p0", "excache.fetches")
    reads = delta(before, after, "p0", "excache.reads_onesided")
    asked = fetches - reads
    slack = 40 + fetches // 50  # heartbeats, and what else the nodes have to say meanwhile
    assert fetches >= 2 * 16 * MB // PAGE
    assert delta(before, after, "p0", "excache.reads_fallback") == 0
    assert reads >= fetches * 9 // 10 if onesided == "on" else reads == 0
    assert reads == delta(before, after, "p0", "rpc.reads")
    assert delta(before, after, "p0", "excache.writebacks") <= slack
    assert asked <= delta(before, after, "p0", "rpc.requests") <= asked + slack
    assert asked <= delta(before, after, "p0", "rpc.replies_received") <= asked + slack
    nodes = [n for n in after if n[0] in "pm"]
    doorbells = sum(delta(before, after, n, "rpc.doorbells") for n in nodes)
    assert doorbells <= reads + 2 * (asked + slack)
    assert sum(delta(before, after, n, "memory.fetch") for n in nodes if n[0] == "m") == asked
    for node in nodes:
        # Bodies of requests and small replies are copied; the page itself never is.
        assert delta(before, after, node, "rpc.copied_bytes") <= 256 * (asked + slack)
    pages = asked + delta(before, after, "p0", "excache.writebacks")
    pages += sum(delta(before, after, n, "page_cache.fetch") for n in nodes if n[0] == "m")
    sent = sum(delta(before, after, n, "rpc.bulk_bytes") for n in nodes)
    assert asked * PAGE <= sent <= (pages + slack) * PAGE


def move_vregion(cluster, index):
    """Move one vRegion of the only running program to the node that does not own it."""
    before = total(cluster.stats(), "memory.vregions_moved")
    for home in ("m0", "m1"):
        for to in (2, 3):
            try:
                cluster.cluster.debug(home, f"move_vregion any {index} {to}")
            except OSError:
                continue  # not its home, or the owner already
            if total(cluster.stats(), "memory.vregions_moved") > before:
                return
    raise AssertionError("no vRegion moved")


def test_moving_an_owner_costs_one_redirect(pool, programs):
    cluster = pool.get(*SMALL_CACHE, *TWO_MEMORIES)
    steps = Steps(cluster, programs, 24)
    steps.step()
    before = cluster.stats()
    move_vregion(cluster, (steps.address + 8 * MB) // (2 * MB))
    steps.step()
    steps.step()
    after = cluster.stats()
    steps.end()
    assert total(after, "memory.vregions_moved") - total(before, "memory.vregions_moved") == 1
    assert delta(before, after, "p0", "excache.redirected") == 1
    assert total(after, "memory.redirects") - total(before, "memory.redirects") == 1


def test_programs_that_lie_in_tmpfs(cluster, programs):
    """Their pages are lines of the processor that no owner has yet: text, data, bss, and a fork of
    it.
    """
    program = programs / "glibc-static/cowtree"
    script = f"""busybox cp {program} /tmp/tree && /tmp/tree 4 300 1 &&
busybox cp /usr/bin/busybox /tmp/busybox &&
printf '#!/tmp/busybox sh\necho $0 is run by what lies beside it\n' > /tmp/script &&
/tmp/busybox chmod 755 /tmp/script && /tmp/script; echo $?
/tmp/busybox head -c 100 /tmp/busybox > /tmp/cut; /tmp/busybox chmod 755 /tmp/cut
/tmp/cut 2> /tmp/err; echo $?; busybox rm /tmp/tree /tmp/busybox /tmp/script /tmp/cut /tmp/err"""
    want = (
        on_host([str(program), "4", "300", "1"]).out
        + b"/tmp/script is run by what lies beside it\n0\n"
    )
    got = cluster.run(["/usr/bin/busybox", "sh", "-c", script])
    assert got.out.startswith(want)
    assert got.out[len(want) :].strip() not in (b"", b"0")


@pytest.mark.parametrize("lease", [True, False], ids=["leased", "off"])
def test_mapping_in_a_lease_sends_nothing(pool, programs, lease):
    """1,200 times 64 KiB are mapped, written and unmapped: in a lease the processor asks nobody."""
    cluster = pool.get(*(() if lease else ("--append", "processor:mm.lease=off")))
    command = [programs / "glibc-static/ops", "map"]
    cluster.run(command).checked()
    before = cluster.stats()
    cluster.run(command).checked()
    after = cluster.stats()
    requests = delta(before, after, "p0", "rpc.requests")
    if lease:
        assert requests < 60
        assert delta(before, after, "p0", "lease.maps") > 1190
    else:
        assert requests > 2400
        assert delta(before, after, "p0", "lease.maps") == 0
