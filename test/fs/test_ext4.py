# SPDX-License-Identifier: MIT
"""The ext4 reader against images that mke2fs makes of known trees."""

import json
import os
import stat
import zlib
from random import Random

import pytest

from conftest import tool

BIG_FILE = 64 << 20
MIB = 1 << 20


def crc_of(path, size):
    with open(path, "rb") as f:
        if size <= BIG_FILE:
            return zlib.crc32(f.read())
        crc = zlib.crc32(f.read(MIB))
        f.seek((size - MIB) // 4096 * 4096)
        return zlib.crc32(f.read(), crc)


def walk_source(root):
    """Every path below @root (bytes, with a leading slash) with its lstat."""
    root = os.fsencode(root)
    out = {b"": os.lstat(root)}
    for base, dirs, files in os.walk(root):
        for name in dirs + files:
            full = os.path.join(base, name)
            out[full[len(root):]] = os.lstat(full)
    return out


def read_tree(fsread, image):
    out = {}
    for line in fsread(image, "tree").stdout.splitlines():
        node = json.loads(line)
        path = node["path"].encode("latin-1")
        assert path not in out, f"{path!r} listed twice"
        out[path] = node
    return out


# mke2fs -d with inline_data forgets the hole at the end of these: debugfs shows the same sizes.
CUT_BY_MKE2FS = (b"/sparse/islands", b"/sparse/hole-last", b"/sparse/fragments")


def compare(root, found, has_dtype=True, skip=()):
    want = walk_source(root)
    found = {p: n for p, n in found.items() if p != b"/lost+found"}
    assert set(found) == set(want)
    inodes = {}
    for path, st in want.items():
        node, full = found[path], os.fsencode(root) + path
        assert node["mode"] == st.st_mode, path
        if not path:
            continue  # mke2fs makes the root's owner and times its own
        assert (node["uid"], node["gid"]) == (st.st_uid, st.st_gid), path
        # mke2fs -d writes no more than the low 32 bits; test_times_of_all_epochs has the others.
        assert (node["mtime"][0] - st.st_mtime_ns // 10**9) % 2**32 == 0, path
        if has_dtype:
            assert node["dtype"] == stat.S_IFMT(st.st_mode) >> 12, path
        else:
            assert node["dtype"] == 0, path
        if not stat.S_ISDIR(st.st_mode):
            assert node["nlink"] == st.st_nlink, path
            inodes.setdefault(st.st_ino, set()).add(node["ino"])
        if stat.S_ISREG(st.st_mode) and path not in skip:
            assert node["size"] == st.st_size, path
            assert node["crc"] == crc_of(full, st.st_size), path
        elif stat.S_ISLNK(st.st_mode):
            assert node["target"].encode("latin-1") == os.readlink(full), path
        elif stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
            assert node["rdev"] == [os.major(st.st_rdev), os.minor(st.st_rdev)], path
    # Names that are one file in the source are one inode in the image.
    assert all(len(s) == 1 for s in inodes.values())


SHAPES = {
    "ext2-1k": ("-t ext2 -b 1024", "medium"),
    "ext2-4k": ("-t ext2 -b 4096", "small"),
    "ext3-1k": ("-t ext3 -b 1024", "small"),
    "ext3-2k": ("-t ext3 -b 2048", "medium"),
    "ext3-4k": ("-t ext3 -b 4096", "small"),
    "ext4-1k": ("-t ext4 -b 1024", "medium"),
    "ext4-2k": ("-t ext4 -b 2048", "small"),
    "ext4-4k": ("-t ext4 -b 4096", "medium"),
    "ext4-64k": ("-t ext4 -b 65536", "small"),
    "no-csum": ("-t ext4 -b 1024 -O ^metadata_csum", "small"),
    "gdt-csum": ("-t ext4 -b 1024 -O ^metadata_csum,uninit_bg", "small"),
    "gdt-csum-32bit": ("-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^64bit", "small"),
    "csum-32bit": ("-t ext4 -b 4096 -O ^64bit", "small"),
    "csum-seed": ("-t ext4 -b 1024 -O metadata_csum_seed", "small"),
    "inline": ("-t ext4 -b 4096 -O inline_data", "medium"),
    "inline-1k-inodes": ("-t ext4 -b 4096 -I 1024 -O inline_data", "small"),
    "small-inodes": ("-t ext4 -b 1024 -I 128", "small"),
    "big-inodes": ("-t ext4 -b 4096 -I 2048", "small"),
    "meta-bg": ("-t ext4 -b 1024 -O meta_bg,^resize_inode -g 1024 -N 256", "small"),
    "small-groups": ("-t ext4 -b 1024 -g 512 -N 1024 -O ^flex_bg,^resize_inode", "medium"),
    "sparse-super2": ("-t ext4 -b 1024 -O sparse_super2,^resize_inode", "small"),
    "no-sparse-super": ("-t ext3 -b 1024 -O ^sparse_super,^resize_inode", "small"),
    "bigalloc": ("-t ext4 -b 4096 -C 65536 -O bigalloc", "small"),
    "bigalloc-1k": ("-t ext4 -b 1024 -C 16384 -O bigalloc,^resize_inode", "small"),
    "orphan-file": ("-t ext4 -b 4096 -O orphan_file", "small"),
    "mmp": ("-t ext4 -b 1024 -O mmp", "small"),
    "large-dir": ("-t ext4 -b 1024 -O large_dir", "small"),
    "ea-inode": ("-t ext4 -b 4096 -O ea_inode", "small"),
    "no-filetype": ("-t ext4 -b 4096 -O ^filetype", "small"),
    "no-extents": ("-t ext4 -b 4096 -O ^extent,^64bit", "small"),
    "quota-project": ("-t ext4 -b 4096 -O quota,project", "small"),
    "no-journal": ("-t ext4 -b 4096 -O ^has_journal", "small"),
    "revision-0": ("-t ext2 -b 1024 -r 0", "small"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_tree_is_read_as_it_was(fsread, mkimage, trees, shape):
    options, tree = SHAPES[shape]
    size = "256M" if "64k" in shape else "64M"
    image = mkimage(tree, *options.split(), size=size)
    has_dtype = shape not in ("no-filetype", "revision-0")
    skip = CUT_BY_MKE2FS if "inline" in shape else ()
    compare(trees(tree), read_tree(fsread, image), has_dtype, skip)
    if shape != "quota-project":  # mke2fs -d forgets to count quotas
        tool("e2fsck", "-fn", str(image))


INDEXES = {
    "half-md4": dict(hash_alg="half_md4"),
    "half-md4-unsigned": dict(hash_alg="half_md4", super_flags=2),
    "tea": dict(hash_alg="tea"),
    "tea-unsigned": dict(hash_alg="tea", super_flags=2),
    "legacy": dict(hash_alg="legacy"),
    "legacy-unsigned": dict(hash_alg="legacy", super_flags=2),
}


def htree_dump(image, path):
    return tool("debugfs", "-R", f"htree_dump {path}", str(image))


@pytest.mark.parametrize("index", INDEXES)
def test_hashed_directory(fsread, mkimage, trees, index):
    image = mkimage("medium", "-t", "ext4", "-b", "1024", index=True, **INDEXES[index])
    dump = htree_dump(image, "/crowd")
    assert "Root node dump" in dump
    assert (
        f"Hash Version: {['legacy', 'half_md4', 'tea'].index(INDEXES[index]['hash_alg'])}" in dump
    )
    compare(trees("medium"), read_tree(fsread, image))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param("-b 1024", marks=pytest.mark.long),
        "-b 4096",
        pytest.param("-b 1024 -O ^metadata_csum", marks=pytest.mark.long),
        "-b 1024 -O large_dir",
    ],
)
def test_directory_of_5000_names(fsread, mkimage, trees, options):
    image = mkimage("big", "-t", "ext4", *options.split(), index=True)
    dump = htree_dump(image, "/crowd")
    assert "Root node dump" in dump
    if "1024" in options:
        assert "Indirect levels: 1" in dump
    compare(trees("big"), read_tree(fsread, image))


def test_names_are_found_by_the_index_and_not_by_a_scan(fsread, mkimage, copy):
    """Damage the index's hashes: what a scan would still find must not be found."""
    image = mkimage("medium", "-t", "ext4", "-b", "1024", "-O", "^metadata_csum", index=True)
    victim = "entry-00100-" + "n" * 100
    assert fsread(image, "lookup", f"/crowd/{victim}", check=False).returncode == 0
    block = int(tool("debugfs", "-R", "bmap /crowd 0", str(image)))
    data = bytearray(open(image, "rb").read())
    for off in range(block * 1024 + 40, block * 1024 + 1024, 8):
        data[off:off + 4] = b"\xfe\xff\xff\xff"
    broken = copy(image)
    with open(broken, "wb") as f:
        f.write(data)
    found = sum(fsread(broken, "lookup", f"/crowd/entry-{k:05d}-" + "n" * (k % 120),
                       check=False).returncode == 0 for k in range(0, 600, 40))
    assert found < 15


def test_equal_hashes_go_on_in_the_next_leaf(fsread, mkimage, trees):
    """Mark every leaf as a continuation: its first name then has to be looked for one leaf on."""
    image = mkimage("medium", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum", index=True)
    assert "Indirect levels: 0" in htree_dump(image, "/crowd")
    root = int(tool("debugfs", "-R", "bmap /crowd 0", str(image))) * 4096
    with open(image, "r+b") as f:
        f.seek(root + 32)
        count = int.from_bytes(f.read(4)[2:], "little")
        assert count > 8
        for entry in range(1, count):
            f.seek(root + 32 + entry * 8)
            value = int.from_bytes(f.read(4), "little")
            f.seek(root + 32 + entry * 8)
            f.write((value | 1).to_bytes(4, "little"))
    compare(trees("medium"), read_tree(fsread, image))


def test_deep_extent_tree(fsread, mkimage, trees):
    image = mkimage("big", "-t", "ext4", "-b", "1024")
    extents = tool("debugfs", "-R", "ex /sparse/fragments", str(image))
    assert "/ 2 " in extents or " 2/ 2" in extents, extents[:300]
    path = os.path.join(trees("big"), "sparse", "fragments")
    data = fsread(image, "cat", "/sparse/fragments").stdout
    assert data == open(path, "rb").read()


def test_far_offsets(fsread, mkimage, trees):
    image = mkimage("medium", "-t", "ext4", "-b", "4096")
    lines = fsread(image, "map", "/sparse/over4g").stdout.decode().split("\n")
    runs = [line.split() for line in lines if line]
    data = [r[0] for r in runs if r[1] == "1"]
    assert data == ["0+1", "524287+2", "1048575+2", f"{((5 << 30) + 4097) // 4096}+1"]


def test_unwritten_extents_read_as_zeros(fsread, mkimage):
    image = mkimage("small", "-t", "ext4", "-b", "4096")
    tool("debugfs", "-w", "-R", "fallocate /sizes/f0 0 40", str(image))
    tool("debugfs", "-w", "-R", "sif /sizes/f0 size 163840", str(image))
    assert " 2 " in fsread(image, "map", "/sizes/f0").stdout.decode()
    assert fsread(image, "cat", "/sizes/f0").stdout == bytes(163840)


def test_bytes_behind_the_end_read_as_zeros(fsread, mkimage, trees):
    image = mkimage("small", "-t", "ext4", "-b", "4096")
    block = int(tool("debugfs", "-R", "bmap /sizes/f100 0", str(image)))
    with open(image, "r+b") as f:
        f.seek(block * 4096 + 100)
        f.write(b"\xff" * 3996)
    data = fsread(image, "cat", "/sizes/f100").stdout  # which looks behind the end itself
    assert data == open(os.path.join(trees("small"), "sizes", "f100"), "rb").read()


def test_times_of_all_epochs(fsread, mkimage):
    image = mkimage("small", "-t", "ext4", "-b", "4096")
    for field, value in (("mtime", "@0x80000000"), ("mtime_extra", "0x00000005"),
                         ("crtime", "@0x12345678"), ("crtime_extra", "0xee6b27fc")):
        tool("debugfs", "-w", "-R", f"sif /sizes/f100 {field} {value}", str(image))
    node = read_tree(fsread, image)[b"/sizes/f100"]
    assert node["mtime"] == [-2**31 + 2**32, 1]
    assert node["crtime"] == [0x12345678, 0xee6b27fc >> 2]


PATHS = [
    ("/sizes/f100", "/sizes/f100"),
    ("//sizes///f100", "/sizes/f100"),
    ("/sizes/./f100", "/sizes/f100"),
    ("/sizes/../names/a", "/names/a"),
    ("/../../sizes", "/sizes"),
    ("/", "/"),
    ("/..", "/"),
    ("/sizes/", "/sizes"),
    ("/links/relative", "/sizes/f100"),
    ("/links/absolute", "/names/deep"),
    ("/links/absolute/", "/names/deep"),
    ("/links/absolute/..", "/names"),
    ("/links/absolute/a/b/../../a/b/c", "/names/deep/a/b/c"),
]

BAD_PATHS = [
    ("/sizes/f100/", "Not a directory"),
    ("/sizes/f100/x", "Not a directory"),
    ("/sizes/f100/..", "Not a directory"),
    ("/sizes/none", "No such file"),
    ("/none/x", "No such file"),
    ("/links/loop", "Too many levels"),
    ("/links/loop/x", "Too many levels"),
    ("/" + "x" * 256, "File name too long"),
    ("/" + "x/" * 2100, "File name too long"),
    ("", "No such file"),
]


@pytest.fixture(scope="module")
def path_image(tmp_path_factory, trees):
    image = tmp_path_factory.mktemp("paths") / "image"
    tool("mke2fs", "-q", "-t", "ext4", "-d", str(trees("small")), str(image), "64M")
    return image


@pytest.mark.parametrize("path, real", PATHS)
def test_paths(fsread, path_image, path, real):
    assert fsread(path_image, "lookup", path).stdout.decode().split(" ", 1)[1].strip() == real


@pytest.mark.parametrize("path, why", BAD_PATHS)
def test_bad_paths(fsread, path_image, path, why):
    done = fsread(path_image, "lookup", path, check=False)
    assert done.returncode == 1 and why in done.stderr.decode()


def test_readdir_in_pieces(fsread, path_image):
    whole = fsread(path_image, "ls", "/names").stdout
    assert fsread(path_image, "ls", "/names", "1").stdout == whole
    assert fsread(path_image, "ls", "/names", "3").stdout == whole


def test_noise_in_directories_is_told_as_corruption(fsread, tmp_path, trees, copy):
    """Blocks of directories, and their inodes: no call says that it has no memory."""
    clean = tmp_path / "clean"
    tool("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-O", "^metadata_csum,^has_journal", "-d",
         str(trees("small")), str(clean), "16M")  # fmt: skip
    random = Random(11)
    said = set()
    for round in range(40):
        image = copy(clean, f"noise{round}")
        where = ("/", "/names")[round % 2]
        block = int(tool("debugfs", "-R", f"bmap {where} 0", str(image)))
        at = block * 4096 if round % 4 < 2 else inode_offset(image, where) + 40
        for _ in range(1 + round // 4):
            flip(image, at + random.randrange(100), random.randrange(1, 256))
        for args in (("ls", "/names"), ("ls", "/"), ("lookup", "/names/x")):
            done = fsread(image, *args, check=False)
            assert done.returncode in (0, 1), done
            if done.returncode:
                said.add(done.stderr.decode("latin-1").splitlines()[-1].split(": ")[-1])
        image.unlink()
    assert "Structure needs cleaning" in said
    assert said <= {"Structure needs cleaning", "Input/output error", "No such file or directory",
                    "Not a directory", "Too many levels of symbolic links"}, said


REFUSALS = [
    ("feature needs_recovery", "needs_recovery"),
    ("ssv state 3", "marked as having errors"),
    ("ssv state 0", "not unmounted cleanly"),
    ("ssv last_orphan 12", "orphaned inodes"),
    ("feature encrypt", "unknown feature encrypt"),
    ("feature casefold encrypt", "unknown features encrypt, casefold"),
    ("feature compression", "unknown feature compression"),
    ("feature journal_dev", "unknown feature journal_dev"),
    ("feature FEATURE_I27", "unknown feature FEATURE_I27"),
    ("ssv blocks_count 999999", "number of inodes"),
    ("ssv log_block_size 9", "block size"),
    ("ssv inode_size 100", "inode size"),
    ("ssv inodes_per_group 0", "inodes per group"),
    ("ssv blocks_per_group 0", "blocks per group"),
]


@pytest.mark.parametrize("change, why", REFUSALS)
def test_refusals(fsread, path_image, copy, change, why):
    image = copy(path_image)
    tool("debugfs", "-w", "-R", change, str(image))
    done = fsread(image, "statfs", check=False)
    assert done.returncode == 1
    text = done.stderr.decode()
    assert why in text, text
    assert text.count("\n") == 2, text  # one line of ours, one of the tool's


def test_cut_image_is_refused(fsread, path_image, copy):
    image = copy(path_image)
    os.truncate(image, 32 << 20)
    done = fsread(image, "statfs", check=False)
    assert done.returncode == 1 and b"cut short" in done.stderr


def test_not_a_file_system(fsread, tmp_path):
    image = tmp_path / "noise"
    image.write_bytes(b"not ext4" * (1 << 17))
    done = fsread(image, "statfs", check=False)
    assert done.returncode == 1 and b"not an ext2, ext3 or ext4 file system" in done.stderr


def test_mmp_in_use(fsread, mkimage):
    image = mkimage("small", "-t", "ext4", "-b", "1024", "-O", "mmp,^metadata_csum")
    dump = tool("debugfs", "-R", "dump_mmp", str(image))
    block = next(int(w[1]) for w in map(str.split, dump.splitlines()) if w[0] == "block_number:")
    flip(image, block * 1024 + 4)
    done = fsread(image, "statfs", check=False)
    assert done.returncode == 1 and b"in use by another node" in done.stderr


def flip(image, offset, mask=0x40):
    with open(image, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ mask]))


def inode_offset(image, path, block_size=4096):
    for line in tool("debugfs", "-R", f"imap {path}", str(image)).splitlines():
        if "located at block" in line:
            words = line.replace(",", "").split()
            return int(words[3]) * block_size + int(words[5], 16)
    raise AssertionError("no imap")


@pytest.fixture(scope="module")
def csum_base(tmp_path_factory, trees):
    image = tmp_path_factory.mktemp("csum") / "image"
    tool("mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", str(trees("medium")), str(image), "64M")
    tool("e2fsck", "-fyD", str(image), ok=(0, 1))
    return image


@pytest.fixture
def csum_image(csum_base, copy):
    return copy(csum_base)


def test_checksum_of_superblock(fsread, csum_image):
    flip(csum_image, 1024 + 0x78)
    done = fsread(csum_image, "statfs", check=False)
    assert done.returncode == 1 and b"corrupt superblock: checksum" in done.stderr


def test_checksum_of_group_descriptor(fsread, csum_image):
    flip(csum_image, 4096 + 0x0c)
    done = fsread(csum_image, "tree", check=False)
    assert done.returncode == 1 and b"group 0: descriptor checksum" in done.stderr


def test_checksum_of_inode(fsread, csum_image):
    flip(csum_image, inode_offset(csum_image, "/sizes/f100") + 2)
    done = fsread(csum_image, "lookup", "/sizes/f100", check=False)
    assert done.returncode == 1 and b"checksum" in done.stderr
    assert fsread(csum_image, "cat", "/sizes/f150").stdout  # the others are fine


def blocks(image, path):
    return [int(w) for w in tool("debugfs", "-R", f"blocks {path}", str(image)).split()]


def test_checksum_of_extent_block(fsread, csum_image):
    dump = tool("debugfs", "-R", "ex /sparse/fragments", str(csum_image))
    node = next(line for line in dump.splitlines() if line.strip().startswith("0/"))
    leaf = int(node.split()[node.split().index("-") + 2 if "-" in node.split() else 6])
    flip(csum_image, leaf * 4096 + 500)
    done = fsread(csum_image, "cat", "/sparse/fragments", check=False)
    assert done.returncode == 1 and b"extent node: checksum" in done.stderr


def test_checksum_of_directory_block(fsread, csum_image):
    flip(csum_image, blocks(csum_image, "/sizes")[0] * 4096 + 9)
    done = fsread(csum_image, "ls", "/sizes", check=False)
    assert done.returncode == 1 and b"block 0: checksum" in done.stderr


def test_checksum_of_index_block(fsread, csum_image):
    root = int(tool("debugfs", "-R", "bmap /crowd 0", str(csum_image)))
    flip(csum_image, root * 4096 + 60)
    done = fsread(csum_image, "lookup", "/crowd/entry-00000-", check=False)
    assert done.returncode == 1 and b"index block 0: checksum" in done.stderr
