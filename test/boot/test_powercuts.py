# SPDX-License-Identifier: MIT
"""Power cuts of a whole cluster: programs write, synchronise, rename and remove; the writes of the
storage node's disk are recorded, and the power is cut anywhere in them.
"""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading

import powercut
import pytest
from boot import Running, build_programs
from hand import Hand
from test_disk import check_clean

os.environ["PATH"] += ":/usr/sbin:/sbin"
HANDS = ("one", "two")


@pytest.fixture
def where():
    """Images come and go by the hundred: in memory, where there is some."""
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = pathlib.Path(tempfile.mkdtemp(prefix="cuts.", dir=shm))
    yield path
    shutil.rmtree(path)


def make_image(where: pathlib.Path, options: str) -> pathlib.Path:
    stage, image = where / "stage", where / "disk.img"
    (stage / "bin").mkdir(parents=True)
    shutil.copy2(build_programs() / "glibc-static" / "hand", stage / "bin" / "hand")
    for name in HANDS:
        (stage / "work" / name).mkdir(parents=True)
    subprocess.run(["mke2fs", "-q", "-F", "-d", stage, *options.split(), image, "24M"],
                   check=True)  # fmt: skip
    return image


def all_at_once(works: dict[str, powercut.Work], changes: int) -> None:
    """Each hand in a thread of its own."""
    failed = []

    def go(work: powercut.Work) -> None:
        try:
            for _ in range(changes):
                work.one()
        except BaseException as err:
            failed.append(err)

    threads = [threading.Thread(target=go, args=(work,)) for work in works.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def cut_power(where: pathlib.Path, seed: int, options: str, more: tuple, changes: int, cuts: int):
    image = make_image(where, options)
    base = where / "before.img"
    shutil.copy(image, base)
    logged = where / "log"
    stable = "s0:storage.stable=1" in more
    running = Running(("--disk", str(image), "--qemu", str(powercut.logging_qemu(where, logged)),
                       *more), None, f"cuts-{seed}").up()  # fmt: skip
    rng = random.Random(seed)
    try:
        log = powercut.WriteLog(logged)
        works = {}
        for name in HANDS:
            hand = Hand(running, f"/work/{name}")
            works[name] = powercut.Work(hand, powercut.WriteLog(logged),
                                        random.Random(rng.getrandbits(64)), stable)  # fmt: skip
        all_at_once(works, changes)
    finally:
        running.close()
    assert not running.complaints()
    check_clean(image)
    powercut.play(where, base, log, works, cuts, rng)


def test_the_model_of_a_size_before_its_bytes():
    """Cut short, written, cut again behind that: the second size may be there before the bytes, as
    on Linux, where it is no longer than they; but not bytes that were cut off, nor others' zeroes.
    """
    file, unit = powercut.File(), powercut.UNIT
    size = 4 * powercut.BLOCK
    for event in (powercut.Event(1, "write", 0, size, 7), powercut.Event(2, "cut", 0, 160, 0),
                  powercut.Event(3, "write", 160, size, 8),
                  powercut.Event(4, "cut", 0, size, 0)):  # fmt: skip
        file.events.append(event)
    file.promises.append((1, 1))
    old, new = powercut.pattern(0, size, 7), powercut.pattern(0, size, 8)
    hole = old[:160] + bytes(size - 160)
    at = 2 * powercut.BLOCK
    assert file.wrong(hole, 4) is None
    assert file.wrong(hole, 3)  # the second cut has not been asked for
    assert file.wrong(old[:160] + new[160:at] + bytes(unit) + new[at + unit:], 4) is None
    assert file.wrong(bytes(unit) + hole[unit:], 4)
    assert file.wrong(old[:at] + new[at:at + unit] + old[at + unit:], 3) is None


def test_power_cuts(where):
    cut_power(where, 1, "-t ext4 -b 4096 -m 0 -J size=4", (), 150, 30)


# All on virtio: QEMU 7.2's nvme passes no FUA on, so a commit is not durable before the next flush.
LONG = [
    ("-t ext4 -b 4096 -J size=4", ()),
    ("-t ext4 -b 1024 -J size=1", ()),
    ("-t ext4 -b 4096 -J size=4", ("--append", "s0:storage.stable=1", "--memories", "2")),
    ("-t ext4 -b 4096 -O inline_data -J size=4", ()),
    ("-t ext4 -b 2048 -O ^metadata_csum -J size=4", ()),
    ("-t ext3 -b 1024 -J size=1", ()),
    ("-t ext4 -b 1024 -O ^64bit -I 128 -J size=1", ("--memories", "2")),
    ("-t ext4 -b 4096 -O ^dir_index -J size=4", ("--append", "s0:storage.stable=1")),
]


@pytest.mark.long
@pytest.mark.parametrize("nr", range(len(LONG)))
def test_a_thousand_power_cuts(where, nr):
    options, more = LONG[nr]
    cut_power(where, 100 + nr, options, more, 600, 1000 // len(LONG))
