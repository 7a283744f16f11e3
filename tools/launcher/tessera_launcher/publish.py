# SPDX-License-Identifier: MIT
"""Published ports follow the vNode's gateway from machine to machine.

QEMU's user network forwards a port of the host to its own machine only, so when another processor
becomes the gateway the forwards leave the old machine, if it still runs, and come to the new one.
QEMU is told by its monitor, a socket in the run's directory. Threads: one at a time moves them;
state() may be called from any. Failure: a port that cannot be had any more is said in the
launcher's log and by state(); the others move.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable

from .errors import one_line
from .options import Published

MONITOR_S = 10.0
MAX_LINE = 1 << 16


def monitor_path(run_dir: str, name: str) -> str:
    return os.path.join(run_dir, f"{name}.mon")


class Monitor:
    """A connection to the monitor of one QEMU. OSError if it is not there or does not answer."""

    def __init__(self, path: str):
        self._sock = socket.socket(socket.AF_UNIX)
        self._deadline = time.monotonic() + MONITOR_S
        try:
            self._sock.settimeout(MONITOR_S)
            self._sock.connect(path)
            self._file = self._sock.makefile("rb")
            self._read("QMP")
            self._execute("qmp_capabilities")
        except BaseException:
            self._sock.close()
            raise

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_) -> None:
        self._file.close()
        self._sock.close()

    def _read(self, key: str) -> object:
        """The next message that has @key; events come between."""
        while True:
            self._sock.settimeout(max(0.01, self._deadline - time.monotonic()))
            line = self._file.readline(MAX_LINE)
            if not line.endswith(b"\n"):
                raise OSError("the monitor has closed the connection")
            try:
                message = json.loads(line)
            except ValueError:
                raise OSError("the monitor does not speak JSON") from None
            if not isinstance(message, dict) or "error" in message:
                raise OSError(f"the monitor says {one_line(line.decode('utf-8', 'replace'))}")
            if key in message:
                return message[key]

    def _execute(self, command: str, **arguments: str) -> object:
        order: dict = {"execute": command}
        if arguments:
            order["arguments"] = arguments
        self._sock.sendall(json.dumps(order).encode() + b"\n")
        return self._read("return")

    def forward(self, port: Published) -> str:
        """What QEMU has against it; "": nothing."""
        rule = f"{port.protocol}:{port.address}:{port.host}-:{port.guest}"
        return one_line(str(self._human(f"hostfwd_add net0 {rule}")))

    def forget(self, port: Published) -> None:
        self._human(f"hostfwd_remove net0 {port.protocol}:{port.address}:{port.host}")

    def _human(self, line: str) -> object:
        return self._execute("human-monitor-command", **{"command-line": line})


class Publisher:
    def __init__(self, run_dir: str, ports: list[Published], at: str,
                 end: Callable[[str], None], log: Callable[[str], None]):  # fmt: skip
        """@ports lead to @at now. @end: end a machine that has lost its part for good, and wait
        for its end.
        """
        self._run_dir = run_dir
        self._ports = ports
        self._at = self._wanted = at
        self._end = end
        self._log = log
        self._lock = threading.Lock()  # moving
        self._faults: dict[Published, str] = {}

    def state(self) -> list[str]:
        faults = self._faults
        return [p.text() + (f" (lost: {faults[p]})" if p in faults else "") for p in self._ports]

    def moved(self, name: str) -> None:
        """@name is the gateway from now on: any thread; does not wait."""
        self._wanted = name
        if self._ports:
            threading.Thread(target=self._move, daemon=True).start()

    def started_again(self, name: str) -> None:
        """The machine @name has ended, and another of that name will start: it has no ports before
        it is the gateway. Any thread; may wait for ports that move.
        """
        with self._lock:
            if self._at == name:
                self._at = ""
            if self._wanted == name:
                self._wanted = ""

    def _move(self) -> None:
        with self._lock:
            name = self._wanted
            if name in (self._at, ""):
                return
            if self._at:
                self._leave(self._at)
            self._faults = self._come(name)
            self._at = name
        for port, why in self._faults.items():
            self._log(f"--publish: {port.text()}: {why}")

    def _leave(self, name: str) -> None:
        """A machine that does not answer would keep the ports: it is not the gateway any more, so
        the cluster has lost it, and it ends.
        """
        try:
            with Monitor(monitor_path(self._run_dir, name)) as monitor:
                for port in self._ports:
                    monitor.forget(port)
        except (FileNotFoundError, ConnectionRefusedError):
            pass  # it has ended
        except OSError as err:
            self._log(f"--publish: {name}: {err}")
            self._end(name)

    def _come(self, name: str) -> dict[Published, str]:
        try:
            with Monitor(monitor_path(self._run_dir, name)) as monitor:
                answers = [(port, monitor.forward(port)) for port in self._ports]
        except OSError as err:
            return dict.fromkeys(self._ports, one_line(f"{name}: {err}"))
        return {port: why for port, why in answers if why}
