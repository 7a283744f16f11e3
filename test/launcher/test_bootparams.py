# SPDX-License-Identifier: MIT
"""What the launcher reads from a kernel image: boot parameters and what they take."""

import pathlib
import shutil
import subprocess

import pytest
from conftest import ROOT
from tessera_launcher import bootparams
from tessera_launcher.errors import UsageError
from tessera_launcher.options import parse_run
from tessera_launcher.plan import node_list

SOURCE = """
#include <kernel/bootparam.h>

static bool flag;
static uint32_t count, slots;
static uint64_t room;
static const char *text;
static int parse(const char *value) { return value ? 0 : -1; }
BOOT_PARAM("flag", bool, flag, "a flag");
BOOT_PARAM("count", u32, count, "any count");
BOOT_PARAM_SAME("slots", u32, slots, 1, 64, "slots of each");
BOOT_PARAM_RANGE("room", size, room, 4096, 1ull << 30, "bytes");
BOOT_PARAM("text", string, text, "a text");
BOOT_PARAM_CB("mode", parse, "this or that");
"""
LAYOUT = """
SECTIONS { .rodata.params : {
    bootparams_start = .; KEEP(*(.bootparam)) bootparams_end = .;
} } INSERT AFTER .rodata;
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> pathlib.Path:
    """An image with the table as the kernel's own header makes it."""
    where = tmp_path_factory.mktemp("image")
    (where / "params.c").write_text(SOURCE)
    (where / "layout.lds").write_text(LAYOUT)
    gcc = shutil.which("gcc") or pytest.skip("no gcc")
    subprocess.run(
        [gcc, "-static", "-nostdlib", "-ffreestanding", "-fno-pic", "-no-pie", "-Wl,-e,0",
         f"-I{ROOT}/kernel/include", f"-I{ROOT}/lib/include", "-o", where / "kernel.elf",
         where / "params.c", "-T", where / "layout.lds"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return where / "kernel.elf"


@pytest.fixture
def tables(image):
    table = bootparams.read(str(image))
    other = {"count": table["count"], "slots": table["slots"]}
    return {"processor": table, "memory": other, "storage": {}}


def check(tables, *appends: str) -> None:
    words = [w for a in appends for w in ("--append", a)]
    o = parse_run([*words, "prog"])
    bootparams.check(o, node_list(o), tables)


def test_the_table_of_an_image(image):
    table = bootparams.read(str(image))
    assert sorted(table) == ["count", "flag", "mode", "room", "slots", "text"]
    assert table["slots"] == bootparams.Param("slots", "slots of each", bootparams.U32, True, 1, 64)
    assert table["room"].high == 1 << 30 and table["mode"].kind == bootparams.CALLBACK


@pytest.mark.parametrize("damage", ["empty", "text", "half", "stripped"])
def test_a_file_without_a_table_is_not_checked(image, tmp_path, damage):
    data = image.read_bytes()
    bad = tmp_path / "kernel.elf"
    bad.write_bytes({"empty": b"", "text": b"no program", "half": data[: len(data) // 2],
                     "stripped": data}[damage])  # fmt: skip
    if damage == "stripped":
        subprocess.run(["strip", bad], check=True)
    assert bootparams.read(str(bad)) is None


@pytest.mark.parametrize("good", [
    "flag", "flag=off", "count=0x10 count=4294967295", "processor:slots=8 memory:slots=8",
    "slots=64", "p0:room=4K text=", 'p0:text="a b=c"', "p0:mode=whatever", "room=1G",
])  # fmt: skip
def test_what_is_taken(tables, good):
    check(tables, *good.replace(" memory:", "\nmemory:").split("\n"))


@pytest.mark.parametrize("bad, text", [
    ("slot=3", "--append: slot is no boot parameter of a node (did you mean slots?)"),
    ("memory:flag", "--append: flag is no boot parameter of a memory node"),
    ("s0:xyz=1", "--append: xyz is no boot parameter of a s0 node (see docs/boot-params.md)"),
    ("slots=65", "--append: bad value for slots: '65', not a number from 1 to 64 (slots of each)"),
    ("slots=0", "not a number from 1 to 64"),
    ("count=4294967296", "bad value for count: '4294967296', not a number from 0 to 4294967295"),
    ("count=-1", "bad value for count"),
    ("count", "bad value for count: ''"),
    ("processor:room=4095", "not a number from 4096 to 1073741824 (bytes)"),
    ("p0:room=8Q", "bad value for room"),
    ("p0:flag=maybe", "bad value for flag: 'maybe', a flag"),
    ("p0:text", "bad value for text"),
    ("processor:slots=7",
     "slots must be the same on all nodes (p0: 7, m0: the default)"),
])  # fmt: skip
def test_what_is_refused(tables, bad, text):
    with pytest.raises(UsageError) as err:
        check(tables, bad)
    assert text in str(err.value) and "\n" not in str(err.value)


def test_words_are_cut_as_the_kernel_cuts_them():
    assert bootparams.words('a  b=1\tc="x y=z"d e=') == [
        ("a", None), ("b", "1"), ("c", "x y=zd"), ("e", ""),
    ]  # fmt: skip
