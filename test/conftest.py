# SPDX-License-Identifier: MIT
"""Tests that are marked long run only with --long or TEST_LONG=1 (make test-long)."""

import os


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also the tests marked long")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes; only with --long")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--long") or os.environ.get("TEST_LONG") == "1":
        return
    kept = [i for i in items if "long" not in i.keywords]
    config.hook.pytest_deselected(items=[i for i in items if "long" in i.keywords])
    items[:] = kept
