# SPDX-License-Identifier: MIT
"""Fixtures of the boot tests."""

import pytest
from boot import TWO_MEMORIES, Pool, build_programs, make_disk, make_texts


@pytest.fixture(scope="session")
def programs():
    return build_programs()


@pytest.fixture(scope="session")
def texts():
    return make_texts()


@pytest.fixture(scope="session")
def disk(programs, texts):
    return make_disk(programs, texts)


@pytest.fixture(scope="session")
def pool(disk):
    """Clusters by their options; at the end none may have complained in its log."""
    pool = Pool(disk)
    yield pool
    pool.close()
    assert not pool.complaints, "\n".join(pool.complaints)


@pytest.fixture(params=[(), TWO_MEMORIES], ids=["one-memory", "two-memories"])
def cluster(request, pool):
    """Everything runs on both shapes: one memory node, and two with alternating 2 MiB vRegions."""
    return pool.get(*request.param)


@pytest.fixture
def plain(pool):
    return pool.get()
