# SPDX-License-Identifier: MIT
"""One look at a running cluster: its nodes, what they count, the model's counters.

Several readers (`top`, the metrics' clients) share a look that is fresh enough, so that they cost
the nodes no more than one does. Context: any thread.
"""

from __future__ import annotations

import contextlib
import threading
import time

from .cluster import Cluster
from .errors import LaunchError

FRESH_S = 0.2
ANSWER_S = 3.0  # a node that says nothing for so long is shown without counters


class Sampler:
    """Looks at one cluster."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._lock = threading.Lock()
        self._last: dict | None = None
        self._taken = 0.0

    def take(self) -> dict:
        """{"nodes": [{"name", "role", "cpus", "ram", "state", "up", "incarnation", "at",
        "counters"}], "hca"}; "counters" is None when the node gave none. LaunchError: the cluster
        has failed.
        """
        with self._lock:
            if self._last is None or time.monotonic() - self._taken > FRESH_S:
                self._last = self._look()
                self._taken = time.monotonic()
            return self._last

    def _look(self) -> dict:
        cluster = self._cluster
        answers = cluster.sample(timeout=ANSWER_S)
        nodes = []
        for n in cluster.plan.nodes:
            at, said = answers.get(n.name) or (time.monotonic(), None)
            counters = None if said is None else said.get("counters", said)
            nodes.append(
                {"name": n.name, "role": n.role, "cpus": n.cpus, "ram": n.ram,
                 "state": cluster.state(n.name), "up": n.name not in cluster.lost,
                 "incarnation": cluster.incarnation(n.name), "at": at, "counters": counters}
            )  # fmt: skip
        hca = None
        with contextlib.suppress(LaunchError):
            hca = cluster.inject("stats")
        return {"nodes": nodes, "hca": hca}
