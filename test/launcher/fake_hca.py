#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands in for the HCA model in the launcher's tests: only its control socket.

FAKE_HCA_FILE names a file that is completed when it is asked to end; "never" is a model that does
not listen.
"""

import json
import os
import pathlib
import signal
import socket
import sys
import time


def complete(*_):
    if completed != "never":
        time.sleep(0.3)
        pathlib.Path(completed).write_text("complete\n")
        sys.exit(0)


completed = os.environ.get("FAKE_HCA_FILE")
if completed:
    signal.signal(signal.SIGTERM, complete)

control = sys.argv[sys.argv.index("--control") + 1]
server = socket.socket(socket.AF_UNIX)
server.bind(control)
server.listen()
said = []
while True:
    conn, _ = server.accept()
    for line in conn.makefile("r"):
        said.append(line.strip())
        bad = line.startswith("bad")
        reply = {"error": "no such command"} if bad else {"ok": True, "said": said}
        conn.sendall(json.dumps(reply).encode() + b"\n")
