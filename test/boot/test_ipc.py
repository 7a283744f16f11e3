# SPDX-License-Identifier: MIT
"""Pipes, descriptors, waiting and locks: what programs see is what Linux shows them."""

import pytest
from boot import on_host

# Programs of test/user that print the same on both.
SAME = ["epolls", "fds", "futexes", "pipes", "polls"]


@pytest.mark.parametrize("name", SAME)
def test_same_as_linux(cluster, programs, name):
    argv = [programs / "glibc-static" / name]
    got, want = cluster.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err
