# SPDX-License-Identifier: MIT
"""Changes of images by the kernel's code on the host (fswork), checked by e2fsck and by fsread."""

import os
import random
import re
import subprocess

import pytest

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FSWORK = os.path.join(os.environ.get("O", os.path.join(REPO, "build")), "tools", "fswork", "fswork")

SHAPES = [
    "-t ext4",
    "-t ext4 -b 1024",
    "-t ext4 -b 2048 -I 128",
    "-t ext4 -O ^metadata_csum,uninit_bg",
    "-t ext4 -O ^metadata_csum,^uninit_bg,^64bit",
    "-t ext4 -O ^extent,^64bit -b 1024",
    "-t ext2 -b 1024 -I 128",
    "-t ext3",
    "-t ext4 -O inline_data",
    "-t ext4 -O inline_data -b 1024 -I 512",
    "-t ext4 -O ^has_journal",
    "-t ext4 -O ^dir_index",
    "-t ext4 -O ^flex_bg,^resize_inode,mmp",
    "-t ext4 -O meta_bg,^resize_inode -b 1024",
]


def make_image(tmp_path, shape, size="48M"):
    image = tmp_path / "image"
    subprocess.run(["truncate", "-s", size, image], check=True)
    subprocess.run(["mke2fs", "-q", "-F", *shape.split(), image], check=True)
    return image


def work(image, *args):
    done = subprocess.run([FSWORK, image, *args], capture_output=True, timeout=300)
    # A signal or a sanitizer's report is a defect as well.
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done


def check(image):
    """e2fsck finds nothing to say beside its five passes and the summary."""
    done = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith("Pass ")]
    assert done.returncode == 0 and len(lines) == 1, done.stdout


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_random_changes(tmp_path, fsread, shape, seed):
    image = make_image(tmp_path, shape)
    work(image, "random", str(seed), "3000")
    check(image)
    fsread(image, "tree")


@pytest.mark.parametrize("shape", ["-t ext4", "-t ext2 -b 1024", "-t ext4 -b 1024 -O ^has_journal"])
@pytest.mark.parametrize("what", ["fill", "inodes"])
def test_full(tmp_path, shape, what):
    image = make_image(tmp_path, shape)
    work(image, what)
    check(image)


@pytest.mark.parametrize(
    "shape",
    [
        "-t ext4 -N 120000",
        "-t ext4 -b 1024 -N 120000",
        pytest.param("-t ext2 -b 1024 -N 120000", marks=pytest.mark.long),
    ],
)
def test_big_directory(tmp_path, fsread, shape):
    image = make_image(tmp_path, shape, "128M")
    work(image, "bigdir", "100000")
    check(image)


@pytest.mark.parametrize("shape", ["-t ext4", "-t ext2 -b 1024", "-t ext4 -b 1024"])
def test_far_behind_4_gib(tmp_path, shape):
    image = make_image(tmp_path, shape)
    work(image, "bigfile")
    done = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("shape", ["-t ext4", "-t ext4 -O ^metadata_csum,inline_data",
                                   "-t ext2 -b 1024",
                                   "-t ext4 -b 1024 -O ^has_journal,^metadata_csum"])
def test_damage_below_a_mount(tmp_path, shape, seed):
    """Damage makes the mount read-only or goes unseen; the work ends."""
    image = make_image(tmp_path, shape, "8M")
    assert work(image, "damage", str(seed), "2000").stdout in (b"read-only\n", b"writable\n")


def problems(image):
    """
    What e2fsck would mend, a set. Numbers are left out, but for inodes: counts and lists of blocks
    differ when there are changes between two looks.
    """
    done = subprocess.run(
        ["e2fsck", "-fn", image], capture_output=True, text=True, errors="replace"
    )
    assert done.returncode & ~12 == 0, done.stdout + done.stderr
    found = set()
    for line in map(str.strip, done.stdout.splitlines()):
        if not line or re.search(r"^Pass |^Warning: skipping journal|\d+/\d+ blocks$", line):
            continue
        line = line.replace(str(image), "IMAGE")
        line = re.sub(r"(count wrong).*|(differences:).*|\(There are \d+", r"\1\2", line)
        inode = re.match(r"(?i)(?:free )?inode \d+", line)
        found.add((inode[0] if inode else "") + re.sub(r"\d+", "#", line))
    return found


# No damage may lead to these, also where a bitmap without a checksum calls used blocks free.
UNTOUCHED = re.compile("<filesystem metadata>|<The journal inode>|<The group descriptor inode>")
BROKEN_IMAGES = int(os.environ.get("TESSERA_BROKEN_IMAGES", "10"))


@pytest.mark.parametrize("shape, has_checksums, one_mounts_of", [
    ("-t ext4 -b 1024 -J size=1", True, 2),
    ("-t ext4 -b 1024 -J size=1 -O ^metadata_csum", False, 2),
    ("-t ext4 -b 1024 -J size=1 -O ^metadata_csum,^extent,^64bit", False, 3),
])
def test_broken_images_get_no_worse(tmp_path, monkeypatch, shape, has_checksums, one_mounts_of):
    """
    Some bytes of the metadata are others; then a mount, a few changes and an unmount. With
    checksums e2fsck finds nothing that was not wrong before; without, nothing of what no file may
    have.
    """
    monkeypatch.setenv("E2FSPROGS_FAKE_TIME", "1700000000")
    fixed = ["-U", "00112233-4455-6677-8899-aabbccddeeff",
             "-E", "hash_seed=00112233-4455-6677-8899-aabbccddee00"]  # fmt: skip
    image = make_image(tmp_path, " ".join([*fixed, shape]), "4M")
    work(image, "changes", "1", "300")
    check(image)
    good = image.read_bytes()
    used = [at for at in range(0, 1 << 20, 64) if any(good[at : at + 64])]
    mounted = 0
    for seed in range(20, 20 + BROKEN_IMAGES):
        rnd = random.Random(seed)
        bad = bytearray(good)
        for _ in range(rnd.randint(1, 6)):
            bad[rnd.choice(used) + rnd.randrange(64)] ^= rnd.randrange(1, 256)
        image.write_bytes(bad)
        before = problems(image)
        done = subprocess.run([FSWORK, image, "changes", str(seed), "40"], capture_output=True)
        assert done.returncode in (0, 1), (seed, done.stderr[-2000:])
        if not done.returncode:
            mounted += 1
            subprocess.run(["e2fsck", "-E", "journal_only", "-y", image], capture_output=True)
        worse = problems(image) - before
        if not has_checksums:
            worse = set(filter(UNTOUCHED.search, worse))
        assert not worse, (seed, done.stdout)
    assert mounted > BROKEN_IMAGES // one_mounts_of


@pytest.mark.parametrize("shape, names", [
    ("-t ext4 -O bigalloc,^resize_inode -C 16384", "bigalloc"),
    ("-t ext4 -O quota", "quota"),
    ("-t ext4 -O ea_inode", "ea_inode"),
])
def test_features_that_are_not_written(tmp_path, shape, names):
    image = make_image(tmp_path, shape)
    done = subprocess.run([FSWORK, image, "fill"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert f"mounted read-only, we do not write: {names}\n" in done.stdout + done.stderr
