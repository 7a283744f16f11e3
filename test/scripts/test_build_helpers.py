# SPDX-License-Identifier: MIT
"""The generators that the build runs."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


def run(*args, **kwargs):
    return subprocess.run(
        [sys.executable, *map(str, args)], capture_output=True, text=True, check=False, **kwargs
    )


def test_crc_tables():
    text = run(TOP / "scripts/gen-crc-tables.py").stdout
    # Known entries: byte 1 of the reflected IEEE, Castagnoli and ANSI tables.
    assert re.search(r"crc32_table\[8\]\[256\] = \{\n\t\{\n\t\t0x00000000, 0x77073096,", text)
    assert re.search(r"crc32c_table\[8\]\[256\] = \{\n\t\{\n\t\t0x00000000, 0xf26b8303,", text)
    assert re.search(r"crc16_table\[256\] = \{\n\t0x0000, 0xc0c1,", text)


def words(asm, label):
    """The .long values behind a label."""
    body = asm.split(f"\n{label}:\n", 1)[1].split("\t.globl", 1)[0]
    return [int(w, 0) for line in re.findall(r"\.long (.*)", body) for w in line.split(",")]


def test_symbols():
    nm = """\
0000000000200000 t boot_low
ffffffff80200000 T start
ffffffff80200010 t helper
ffffffff80200010 T helper_alias
ffffffff80200020 t .Lhidden
ffffffff80200040 T last
ffffffff80200080 T text_end
ffffffff80300000 D data
ffffffff80300000 t beyond_the_end
"""
    asm = run(TOP / "scripts/gen-symbols.py", input=nm).stdout
    assert ".quad 0xffffffff80200000" in asm
    assert words(asm, "ksym_count") == [3]
    assert words(asm, "ksym_offset") == [0, 0x10, 0x40, 0x80]
    assert re.findall(r'\.asciz "(.*)"', asm) == ["start", "helper_alias", "last"]
    assert words(asm, "ksym_name") == [0, 6, 19]


def test_symbols_empty():
    asm = run(TOP / "scripts/gen-symbols.py", "--empty").stdout
    assert words(asm, "ksym_count") == [0]
    assert words(asm, "ksym_offset") == [0]


@pytest.fixture
def kconfig(tmp_path):
    env = dict(os.environ, KCONFIG_CONFIG=str(tmp_path / ".config"), srctree=str(TOP))
    return lambda *args: run(TOP / "scripts/kconfig.py", *args, env=env)


def test_kconfig_generates(kconfig, tmp_path):
    header, conf = tmp_path / "autoconf.h", tmp_path / "auto.conf"
    assert kconfig("defconfig", TOP / "configs/memory_defconfig").returncode == 0
    done = kconfig("generate", header, conf, "UBSAN=y")
    assert done.returncode == 0, done.stderr
    assert "#define CONFIG_ROLE_MEMORY 1" in header.read_text()
    assert "CONFIG_UBSAN=y" in conf.read_text()
    assert "CONFIG_ROLE_STORAGE=y" not in conf.read_text()


def test_what_roles_share_cannot_depend_on_the_role(kconfig, tmp_path):
    """The same header for all three; an option that follows from the role does not even compile in
    #ifdef.
    """
    headers = []
    for role in ("processor", "memory", "storage"):
        kconfig("defconfig", TOP / f"configs/{role}_defconfig")
        shared = tmp_path / f"{role}.h"
        done = kconfig("generate", tmp_path / "h", tmp_path / "c", "UBSAN=y", "--shared", shared)
        assert done.returncode == 0, done.stderr
        headers.append(shared.read_text())
    assert len(set(headers)) == 1
    for option, taken in (("UBSAN", True), ("DEBUG", True), ("ROLE_STORAGE", False), ("MANAGERS",
                                                                                      False),
                          ("VIRTIO_BLK", False), ("FS_EXT4", False), ("BLOCK", False)):  # fmt: skip
        source = tmp_path / "x.c"
        source.write_text(f"#ifdef CONFIG_{option}\nint a = CONFIG_{option};\n#endif\n")
        command = ["gcc", "-include", shared, "-c", "-o", tmp_path / "x.o", source]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == taken, done.stderr
        assert taken or "poisoned" in done.stderr


@pytest.mark.parametrize("line", ["CONFIG_NO_SUCH_THING=y", "CONFIG_FRAME_WARN=7"])
def test_kconfig_refuses_a_wrong_defconfig(kconfig, tmp_path, line):
    bad = tmp_path / "bad_defconfig"
    bad.write_text("CONFIG_ROLE_MEMORY=y\n" + line + "\n")
    done = kconfig("defconfig", bad)
    assert done.returncode != 0
    assert line.split("=", 1)[0].removeprefix("CONFIG_") in done.stderr


def test_kconfig_refuses_a_wrong_override(kconfig, tmp_path):
    kconfig("defconfig", TOP / "configs/memory_defconfig")
    assert kconfig("generate", tmp_path / "h", tmp_path / "c", "NOPE=y").returncode != 0


def test_defconfigs_are_minimal_and_round_trip(kconfig, tmp_path):
    for role in ("processor", "memory", "storage"):
        assert kconfig("defconfig", TOP / f"configs/{role}_defconfig").returncode == 0
        config = (tmp_path / ".config").read_text()
        assert kconfig("savedefconfig", tmp_path / "min").returncode == 0
        assert kconfig("defconfig", tmp_path / "min").returncode == 0
        assert (tmp_path / ".config").read_text() == config
