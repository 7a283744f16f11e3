# SPDX-License-Identifier: MIT
"""What programs are told about the system: the vDSO's clocks, /proc, /sys and /dev."""

import pytest
from boot import delta, on_host

VDSO_KINDS = ["glibc-static", "musl-static", "glibc-dyn", "musl-dyn"]


# The vDSO.


@pytest.mark.parametrize("kind", VDSO_KINDS)
def test_clocks_agree_with_the_system_calls(plain, programs, kind):
    argv = [programs / kind / "vdso"]
    assert plain.run(argv) == on_host(argv)


@pytest.mark.parametrize("kind", VDSO_KINDS)
def test_a_million_clock_readings_make_no_system_call(plain, programs, kind):
    before = plain.stats()
    assert plain.run([programs / kind / "vdso", "count"]).out == b"a million readings never went back\n"
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
