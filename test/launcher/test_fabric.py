# SPDX-License-Identifier: MIT
"""--fabric auto against QEMUs that can do this and not that."""

import os
import subprocess

import pytest
from conftest import HERE
from tessera_launcher import fabric
from tessera_launcher.errors import LaunchError

HCA = str(HERE / "fake_hca.py")
WORKS, BAD, CRASH = "exit 85", "exit 43", "kill -SEGV $$"
NO_VFIO = "echo \"$0: -device x: 'vfio-user-pci' is not a valid device model name\" >&2; exit 1"
NO_PROXY = "echo \"$0: 'x-pci-proxy-dev' is not a valid device model name\" >&2; exit 1"


class FakeQemu:
    """A QEMU that does @vfio or @mpqemu when it is given that device, and counts."""

    def __init__(self, tmp, vfio, mpqemu):
        self.path, self.runs, self.cache = str(tmp / "qemu"), tmp / "runs", str(tmp / "fabric.json")
        with open(self.path, "w") as f:
            f.write(f"#!/bin/sh\necho run >> {self.runs}\ncase \"$*\" in\n"
                    "--version) echo 'QEMU emulator version 9.8.7 (fake)' ;;\n"
                    f"*vfio-user-pci*) {vfio} ;;\n*x-pci-proxy-dev*fd=*) {mpqemu} ;;\n"
                    "*) exit 2 ;;\nesac\n")  # fmt: skip
        os.chmod(self.path, 0o755)

    def choose(self, wanted="auto", hca=HCA, dry=False):
        return fabric.choose(wanted, self.path, hca, "tcg", self.cache, dry)

    def count(self):
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0


@pytest.mark.parametrize("vfio, mpqemu, front, why", [
    (WORKS, WORKS, "vfio-user", "vfio-user-pci of QEMU 9.8.7 passed a trial"),
    (WORKS, CRASH, "vfio-user", "vfio-user-pci of QEMU 9.8.7 passed a trial"),
    (NO_VFIO, WORKS, "mpqemu",
     "x-pci-proxy-dev of QEMU 9.8.7 passed a trial; it has no vfio-user-pci"),
    (CRASH, WORKS, "mpqemu", "passed a trial; vfio-user-pci: QEMU was killed by signal 11"),
    (BAD, WORKS, "mpqemu", "vfio-user-pci: the guest does not find the model's registers"),
    ("exit 0", WORKS, "mpqemu", "vfio-user-pci: QEMU ended with status 0"),
    ("echo $0: no such luck >&2; exit 1", WORKS, "mpqemu", "vfio-user-pci: no such luck"),
])  # fmt: skip
def test_what_works_is_taken_and_says_why(tmp_path, vfio, mpqemu, front, why):
    choice = FakeQemu(tmp_path, vfio, mpqemu).choose()
    assert choice.front == front and choice.why.endswith(why)
    assert choice.text() == f"fabric: HCA model over {front}: {choice.why}"


def test_nothing_works_and_the_line_says_what_was_tried(tmp_path):
    qemu = FakeQemu(tmp_path, NO_VFIO, CRASH)
    with pytest.raises(LaunchError) as err:
        qemu.choose()
    assert (
        str(err.value)
        == f"no fabric: the HCA model cannot attach to QEMU 9.8.7 at {qemu.path} (it has no"
        " vfio-user-pci; x-pci-proxy-dev: QEMU was killed by signal 11); RoCE, which any QEMU"
        " can carry, is still to come"
    )
    assert not os.path.exists(qemu.cache)


def test_the_answer_is_kept_until_the_qemu_changes(tmp_path):
    qemu = FakeQemu(tmp_path, NO_VFIO, WORKS)
    first = qemu.choose()
    runs = qemu.count()
    assert runs == 3 and qemu.choose() == first and qemu.choose(dry=True) == first
    assert qemu.count() == runs
    os.utime(qemu.path, (1, 1))
    assert qemu.choose() == first and qemu.count() == 2 * runs
    changed = FakeQemu(tmp_path, WORKS, WORKS)
    assert changed.choose().front == "vfio-user"
    with open(qemu.cache, "w") as f:
        f.write('{"key": 1}')
    assert changed.choose().front == "vfio-user"


def test_a_dry_run_tries_nothing(tmp_path):
    qemu = FakeQemu(tmp_path, WORKS, WORKS)
    choice = qemu.choose(dry=True)
    assert (choice.front, qemu.count()) == ("mpqemu", 0) and "has not been tried" in choice.why
    assert not os.path.exists(qemu.cache)


def test_a_front_end_that_is_asked_for_is_not_tried(tmp_path):
    qemu = FakeQemu(tmp_path, CRASH, CRASH)
    assert qemu.choose("vfio-user").front == "vfio-user" and qemu.choose("mpqemu").front == "mpqemu"
    assert qemu.count() == 0


def test_a_model_that_does_not_start_is_named(tmp_path):
    qemu = FakeQemu(tmp_path, WORKS, WORKS)
    with pytest.raises(LaunchError, match="vfio-user-pci: the model did not start"):
        qemu.choose(hca="/bin/false")
    with pytest.raises(LaunchError, match="vfio-user-pci: /nowhere: No such file"):
        qemu.choose(hca="/nowhere")


def test_trial_is_a_loadable_elf(tmp_path):
    path = tmp_path / "trial.elf"
    path.write_bytes(fabric.trial_elf())
    out = subprocess.run(["readelf", "-n", "-l", path], capture_output=True, text=True)
    assert "Xen" in out.stdout and out.stderr == ""


def test_a_run_logs_what_was_chosen(launcher, tmp_path):
    """The fakes over vfio-user: no descriptors for the device, no qtest, and a line in the log."""
    done = launcher.run(
        "--fabric", "vfio-user", "--log-dir", tmp_path / "log", "/bin/echo", "hello"
    )
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done.stderr
    log = (tmp_path / "log" / "launcher.log").read_text()
    assert log == "fabric: HCA model over vfio-user: by --fabric\n"
    done = launcher.run("--fabric", "vfio-user", "--dry-run", "/bin/true").stdout.decode()
    assert '--vfio-user /dev/shm/tessera-RUN/p0.hca,lid=1,name=p0' in done
    assert '"path": "/dev/shm/tessera-RUN/p0.hca"' in done and "qtest" not in done
