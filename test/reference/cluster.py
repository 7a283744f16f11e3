# SPDX-License-Identifier: MIT
"""Boot Linux guests on one HCA model and run commands in them.

    with Cluster(model, kernel, initrd, workdir, guests=2) as c:
        status, text = c[0].run("ibv_devinfo")

Each guest has one CPU (see docs/tools/hca.md), 512 MiB of shared RAM, an Ethernet link to its
neighbour for the TCP side of the test programs, a console log in `workdir`, and a command
channel on a virtio serial port. A Guest may also stand alone, without an HCA, on QEMU's user
network.
"""
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

APPEND = ("console=ttyS0 quiet panic=-1 no_timer_check clocksource=tsc tsc=reliable "
          "mitigations=off random.trust_cpu=on")


class GuestError(RuntimeError):
    """A guest, QEMU or the model did not do what it should; the text names the log."""


def _die_with_parent():
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Guest:
    """One QEMU with one Linux guest."""

    def __init__(self, index, kernel, initrd, workdir, hca_fd, net_fd, memory, smp, skip,
                 user_net=False, icount=False):
        self.index, self.console = index, workdir / f"guest{index}.console"
        self.ip, self.buffer = "10.0.2.15" if user_net else f"10.9.0.{index + 1}", b""
        self.qtest = workdir / f"qtest{index}"
        self.channel, theirs = socket.socketpair()
        fds = [theirs.fileno()]
        accel = os.environ.get("REFERENCE_ACCEL", "tcg")
        command = [
            os.environ.get("QEMU", "qemu-system-x86_64"), "-nodefaults", "-no-reboot",
            "-display", "none", "-accel", "tcg,thread=single" if icount else accel,
            "-cpu", "max,-erms,-fsrm", "-smp", str(smp), "-m", str(memory),
            "-object", f"memory-backend-memfd,id=ram0,size={memory}M,share=on",
            "-M", "pc,memory-backend=ram0", "-kernel", str(kernel), "-initrd", str(initrd),
            "-append", f"{APPEND} reference_ip={self.ip} reference_skip={','.join(skip)}",
            "-serial", f"file:{self.console}",
            "-chardev", f"socket,id=cmd,fd={theirs.fileno()}", "-device", "virtio-serial-pci",
            "-device", "virtserialport,chardev=cmd,name=reference"]
        if hca_fd is not None:
            fds.append(hca_fd)
            command += ["-qtest", f"unix:{self.qtest},server=on,wait=off", "-qtest-log", "none",
                        "-device", f"x-pci-proxy-dev,id=hca,fd={hca_fd}"]
        if net_fd is not None:
            fds.append(net_fd)
        if net_fd is not None or user_net:
            net = "user" if user_net else f"dgram,local.type=fd,local.str={net_fd}"
            command += ["-netdev", f"{net},id=net", "-device",
                        f"virtio-net-pci,netdev=net,mac=52:54:00:09:00:{index + 1:02x},romfile="]
        if icount:
            command += ["-icount", "shift=0,sleep=off"]
        self.errors = workdir / f"guest{index}.qemu"
        with open(self.errors, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, pass_fds=fds,
                                            preexec_fn=_die_with_parent)
        theirs.close()

    def _fail(self, what):
        tail = ""
        for path in (self.errors, self.console):
            if path.exists():
                tail += path.read_text(errors="replace")[-1500:]
        raise GuestError(f"guest {self.index}: {what} (console: {self.console})\n{tail}")

    def _line(self, deadline):
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                self._fail("no answer in time; so far: "
                           + self.buffer.decode(errors="replace")[-500:])
            if select.select([self.channel], [], [], left)[0]:
                data = self.channel.recv(65536)
                if not data:
                    self._fail(f"QEMU ended with status {self.process.wait()}")
                self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode(errors="replace").rstrip("\r")

    def wait_ready(self, timeout):
        """Wait until the guest takes commands."""
        deadline = time.monotonic() + timeout
        while self._line(deadline) != "@@ ready":
            pass

    def start(self, command):
        """Send a command without waiting for its end."""
        self.channel.sendall(command.encode() + b"\n")

    def finish(self, timeout=60):
        """Wait for the command that start() sent: (status, output)."""
        deadline, lines = time.monotonic() + timeout, []
        while True:
            line = self._line(deadline)
            if line.startswith("@@ "):
                return int(line[3:]), "\n".join(lines)
            lines.append(line)

    def run(self, command, timeout=60):
        """Run a command: (status, output)."""
        self.start(command)
        return self.finish(timeout)

    def stop(self):
        """End QEMU."""
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Node:
    """A Tessera kernel on the model of a cluster, attached as a VM of its own."""

    def __init__(self, cluster, kernel, workdir, lid, params):
        self.lid, self.serial = lid, Path(workdir) / f"node{lid}.serial"
        qtest = Path(workdir) / f"node{lid}.qtest"
        ours, qemus = socket.socketpair()
        answer = cluster.command(f"attach lid={lid},name=tessera,qtest={qtest}", ours.fileno())
        ours.close()
        if not answer["ok"]:
            raise GuestError(f"attach: {answer}")
        command = [
            os.environ.get("QEMU", "qemu-system-x86_64"), "-nodefaults", "-no-reboot",
            "-display", "none", "-accel", os.environ.get("REFERENCE_ACCEL", "tcg"),
            "-cpu", "max,-erms,-fsrm", "-m", "256",
            "-object", "memory-backend-memfd,id=ram0,size=256M,share=on",
            "-M", "pc,memory-backend=ram0", "-kernel", str(kernel), "-append", params,
            "-serial", f"file:{self.serial}", "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
            "-qtest", f"unix:{qtest},server=on,wait=off", "-qtest-log", "none",
            "-device", f"x-pci-proxy-dev,id=hca,fd={qemus.fileno()}"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        pass_fds=[qemus.fileno()], preexec_fn=_die_with_parent)
        qemus.close()

    def log(self):
        """What it has printed on its serial line."""
        return self.serial.read_text(errors="replace") if self.serial.exists() else ""

    def wait_log(self, pattern, timeout=60):
        """Wait until it has printed that."""
        deadline = time.monotonic() + timeout
        while not re.search(pattern, self.log()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise GuestError(f"no {pattern!r} in {self.serial}:\n{self.log()[-1500:]}")
            time.sleep(0.05)

    def stop(self):
        """End QEMU."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Cluster:
    """Some guests and the model between them."""

    def __init__(self, model, kernel, initrd, workdir, guests=2, memory=512, smp=1, skip=(),
                 model_args=()):
        workdir = Path(workdir)
        workdir.mkdir(parents=True, exist_ok=True)
        self.log, self.control = workdir / "hca.log", workdir / "hca.control"
        self.guests, hca, command = [], [], [str(model), "--log", str(self.log), "--control",
                                             str(self.control), *model_args]
        for i in range(guests):
            ours, qemus = socket.socketpair()
            hca.append((ours, qemus))
            (workdir / f"qtest{i}").unlink(missing_ok=True)
            command += ["--vm", f"fd={ours.fileno()},qtest={workdir / f'qtest{i}'}"]
        self.model = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                      pass_fds=[o.fileno() for o, _ in hca],
                                      preexec_fn=_die_with_parent)
        net = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) if guests == 2 else None
        try:
            for i, (ours, qemus) in enumerate(hca):
                ours.close()
                self.guests.append(Guest(i, kernel, initrd, workdir, qemus.fileno(),
                                         net[i].fileno() if net else None, memory, smp, skip))
                qemus.close()
            for end in net or ():
                end.close()
        except BaseException:
            self.stop()
            raise

    def __getitem__(self, index):
        return self.guests[index]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()

    def wait_ready(self, timeout=60):
        """Wait until every guest takes commands."""
        for guest in self.guests:
            guest.wait_ready(timeout)

    def command(self, line, fd=None):
        """Send one command, perhaps with a descriptor, to the model's control socket; its answer.
        """
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.control))
            socket.send_fds(s, [line.encode() + b"\n"], [] if fd is None else [fd])
            with s.makefile() as f:
                return json.loads(f.readline())

    def stats(self):
        """The model's counters."""
        return self.command("stats")

    def pair(self, command, timeout=60):
        """Run a test program as server on guest 0 and as client on guest 1.

        Returns ((status, output) of the server, (status, output) of the client).
        """
        server, client = self.guests
        server.run("rm -f /tmp/out /tmp/status", timeout)
        server.run(f"({command} >/tmp/out 2>&1; echo $? >/tmp/rc; mv /tmp/rc /tmp/status) &",
                   timeout)
        status, text = server.run(
            "for i in $(seq 200); do"
            " grep -q ':4853 [^ ]* 0A' /proc/net/tcp /proc/net/tcp6 && exit 0;"
            " [ -e /tmp/status ] && break; usleep 20000; done; cat /tmp/out; exit 1", timeout)
        if status:
            raise GuestError(f"{command} does not listen: {text}")
        result = client.run(f"{command} {server.ip}", timeout)
        status, text = server.run(
            "for i in $(seq 250); do [ -e /tmp/status ] && break; usleep 20000; done;"
            " cat /tmp/out; exit $(cat /tmp/status)", timeout)
        return (status, text), result

    def stop(self):
        """End everything."""
        for guest in self.guests:
            guest.stop()
        if self.model.poll() is None:
            self.model.terminate()
            try:
                self.model.wait(5)
            except subprocess.TimeoutExpired:
                self.model.kill()
        self.model.wait()
