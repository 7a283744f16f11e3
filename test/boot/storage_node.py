# SPDX-License-Identifier: MIT
"""A storage node all by itself: one virtual machine on the HCA model, driven by test commands."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

from boot import BROKEN, BUILD, ROOT, WORK

sys.path.insert(0, str(ROOT / "test" / "fs"))

from tessera_launcher import frames  # noqa: E402
from tessera_launcher.frames import Decoder, End, Frame, Type  # noqa: E402

LIMIT_S = 60.0


class StorageNode:
    """Boots on entry; .lines has what it said before READY."""

    def __init__(self, name: str, disk: list[str], append: str = ""):
        self.log = WORK / "log" / f"storage-{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.disk = disk
        self.append = f"node=1 rendezvous=lid:1 cluster=p0,m0,s1 cluster.key={'5a' * 32} {append}"
        self.lines: list[tuple[Type, str]] = []
        self._decoder = Decoder(End.NODE)
        self._number = 0

    def __enter__(self) -> StorageNode:
        ctl, ctl_vm = socket.socketpair()
        hca, hca_vm = socket.socketpair()
        qtest, qtest_vm = socket.socketpair()
        model_fds, vm_fds = [hca.fileno(), qtest.fileno()], [
            s.fileno() for s in (ctl_vm, hca_vm, qtest_vm)
        ]
        self._model = subprocess.Popen(
            [BUILD / "tools/hca/tessera-hca",
             "--vm", f"fd={model_fds[0]},qtest=fd:{model_fds[1]},lid=1"],
            pass_fds=model_fds, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._vm = subprocess.Popen(self._qemu(*vm_fds), pass_fds=vm_fds)
        for sock in (ctl_vm, hca, hca_vm, qtest, qtest_vm):
            sock.close()
        self._ctl = ctl
        return self

    def _qemu(self, ctl: int, hca: int, qtest: int) -> list[str]:
        return [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot",
            "-display", "none",
            "-M", "pc,memory-backend=ram0", "-accel", "tcg,thread=multi", "-cpu", "max,-erms,-fsrm",
            "-smp", "1", "-m", "256M",
            "-object", "memory-backend-memfd,id=ram0,size=256M,share=on",
            "-kernel", str(BUILD / "storage/kernel.elf"), "-append", self.append,
            "-chardev", f"file,id=log,path={self.log}", "-serial", "chardev:log",
            "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
            "-device", "virtio-serial-pci,disable-legacy=on,max_ports=2",
            "-chardev", f"socket,id=ctl,fd={ctl}",
            "-device", f"virtserialport,chardev=ctl,name={frames.PORT_NAME}",
            "-device", f"x-pci-proxy-dev,id=hca0,fd={hca}",
            "-chardev", f"socket,id=qtest,fd={qtest}", "-qtest", "chardev:qtest",
            "-qtest-log", "none",
            *self.disk,
        ]  # fmt: skip

    def __exit__(self, kind, *_) -> None:
        self._ctl.close()
        for process in (self._vm, self._model):
            process.kill()
            process.wait()
        if kind is None:
            broken = [line for line in self.log_text().splitlines() if BROKEN.search(line)]
            assert not broken, broken

    def _frames(self, deadline: float):
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"nothing came in time; so far {self.lines}; log {self.log}"
            self._ctl.settimeout(left)
            try:
                data = self._ctl.recv(65536)
            except TimeoutError:
                continue
            assert data, f"the node is gone; log {self.log}"
            yield from self._decoder.feed(data)

    def wait(self, *wanted: Type, limit: float = LIMIT_S) -> Frame:
        """The first frame of one of these types; lines that come before it are kept."""
        for frame in self._frames(time.monotonic() + limit):
            if frame.type in (Type.STATUS, Type.ERROR):
                self.lines.append((frame.type, frames.decode_line(frame.payload)))
            if frame.type in wanted:
                return frame
        raise AssertionError

    def debug(self, command: str, limit: float = LIMIT_S) -> str:
        self._number += 1
        self._ctl.sendall(frames.encode(Frame(Type.DEBUG, self._number, 0, command.encode())))
        err, text = frames.decode_errno(self.wait(Type.DEBUG_REPLY, limit=limit).payload)
        if err:
            raise OSError(err, f"{command}: {os.strerror(err)}")
        return text

    def stats(self) -> dict:
        self._ctl.sendall(frames.encode(Frame(Type.STATS_REQ)))
        return json.loads(self.wait(Type.STATS).payload)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")


def plain_disk(image: pathlib.Path) -> list[str]:
    return ["-drive", f"if=none,id=disk0,format=raw,file={image}",
            "-device", "virtio-blk-pci,disable-legacy=on,drive=disk0"]  # fmt: skip
