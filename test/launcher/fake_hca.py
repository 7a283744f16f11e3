#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands in for the HCA model in the launcher's tests: only its control socket."""

import json
import os
import socket
import sys

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
