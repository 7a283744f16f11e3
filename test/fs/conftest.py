# SPDX-License-Identifier: MIT
"""Options and images for the file system tests."""

import os
import shutil
import subprocess

import pytest

from make_tree import make_tree

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# e2fsprogs lives in sbin, which is not on everybody's path.
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def pytest_addoption(parser):
    parser.addoption("--fsread", help="the fsread program (default: that of build/)")


@pytest.fixture(scope="session")
def fsread(request):
    path = request.config.getoption("--fsread") or os.path.join(
        os.environ.get("O", os.path.join(REPO, "build")), "tools", "fsread", "fsread")
    if not os.path.exists(path):
        pytest.fail(f"{path} is missing: run make tools")

    def run(image, *args, check=True):
        done = subprocess.run([path, str(image), *args], capture_output=True, timeout=300)
        # 1 is an answer; anything else (a signal, a sanitizer's report) is a defect.
        assert done.returncode in (0, 1), done.stderr.decode(errors="replace")
        if check:
            assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done

    return run


@pytest.fixture(scope="session")
def trees(tmp_path_factory):
    """Source trees by name, made on first use."""
    made = {}

    def get(name):
        if name not in made:
            root = tmp_path_factory.mktemp("tree") / name
            os.makedirs(root)
            if name == "big":
                make_tree(root, big_dir=5000, fragments=1500, huge=True)
            elif name == "medium":
                make_tree(root, big_dir=600, fragments=400, huge=True)
            else:
                make_tree(root, big_dir=30)
            made[name] = root
        return made[name]

    return get


def tool(*args, ok=(0,)):
    done = subprocess.run(args, capture_output=True, timeout=300)
    assert done.returncode in ok, (args, done.stdout, done.stderr)
    return done.stdout.decode(errors="replace")


@pytest.fixture
def mkimage(tmp_path, trees):
    """Make an image of a tree: mkimage("small", "-t", "ext4", ..., size="64M")."""

    def make(tree, *options, size="64M", index=False, hash_alg=None, super_flags=None):
        image = tmp_path / "image"
        tool("mke2fs", "-q", "-F", "-d", str(trees(tree)), *options, str(image), size)
        if hash_alg:
            tool("tune2fs", "-E", f"hash_alg={hash_alg}", str(image))
        if super_flags is not None:
            tool("debugfs", "-w", "-R", f"ssv flags {super_flags}", str(image))
        if index:
            tool("e2fsck", "-fyD", str(image), ok=(0, 1))
        return image

    return make


@pytest.fixture
def copy(tmp_path):
    def do(image, name="copy"):
        return shutil.copy(image, tmp_path / name)

    return do
