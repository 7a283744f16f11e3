# SPDX-License-Identifier: MIT
"""The launcher's Cluster itself, where two of its threads meet."""

import types

from tessera_launcher import cluster


def test_an_end_is_seen_when_it_has_been_dealt_with(tmp_path):
    """restart() starts a node anew as soon as it sees that the old machine has ended: what the
    I/O thread says about the old one must not end the new one.
    """
    nodes = [types.SimpleNamespace(name=n, role=r, node=i, publish=[])
             for i, (n, r) in enumerate([("s0", "storage"), ("p1", "processor")])]  # fmt: skip
    plan = types.SimpleNamespace(nodes=nodes, log_dir=str(tmp_path), run_dir=str(tmp_path))
    it = cluster.Cluster(plan, stays=True)
    it.ready_at = 1.0
    it._channels = {n.name: types.SimpleNamespace(hello=None, ready=1) for n in nodes}

    class Ended(dict):
        def __setitem__(self, name, status):  # the other thread goes on at once
            super().__setitem__(name, status)
            assert it.lost[name] == "node p1 is started again"
            it.lost[name] = cluster.STARTING
            it._starts[name] += 1

    it.ended = Ended()
    it._node_failed(nodes[1], "node p1 is started again")
    it._supervisor_event({"event": "ended", "name": "p1", "status": 9})
    assert it.ended == {"p1": 9}
    assert it.lost == {"p1": cluster.STARTING}
