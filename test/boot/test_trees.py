# SPDX-License-Identifier: MIT
"""Trees and container images by ./tessera itself: private layers, and what comes back."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile

import pytest
from boot import BUILD, ROOT, packages

BUSYBOX = packages.require("busybox")[0]
PASSWD = b"root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"


@pytest.fixture
def tessera(tmp_path):
    env = os.environ | {"TESSERA_CACHE": str(tmp_path / "cache")}

    def call(command: str, *args: str) -> subprocess.CompletedProcess:
        options = ["--no-build", "--build-dir", str(BUILD)] if command == "run" else []
        return subprocess.run(
            [ROOT / "tessera", command, *options, *map(str, args)], env=env,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
        )  # fmt: skip

    return call


def test_a_tree_is_private_and_its_changes_come_back_where_asked(tessera, tmp_path):
    tree, shared = tmp_path / "tree", tmp_path / "shared"
    for name in ("bin", "etc", "root"):
        (tree / name).mkdir(parents=True)
    shared.mkdir()
    (shared / "gone").write_text("x")
    shutil.copy(BUSYBOX, tree / "bin" / "busybox")
    (tree / "bin" / "sh").symlink_to("busybox")
    (tree / "etc" / "passwd").write_bytes(PASSWD)
    (tree / "etc" / "hosts").write_text("10.1.1.1 stale\n")
    script = ("cd ~; { echo $HOME; busybox cat /etc/hostname; busybox wc -l </etc/hosts; } >made; "
              "busybox rm /rw/gone; echo new >/rw/new; echo x >/bin/sh2")  # fmt: skip
    image = tmp_path / "kept.img"
    done = tessera("run", "--rootfs", tree, "--rw", f"{shared}:/rw", "--commit", image,
                   "--user", "root", "--output", f"/root/made:{tmp_path}/made",
                   "sh", "-c", script)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "made").read_text() == "/root\ntessera\n5\n"
    assert {p.name: p.read_text() for p in shared.iterdir()} == {"new": "new\n"}
    assert sorted(os.listdir(tree / "bin")) == ["busybox", "sh"]
    assert tessera("fsck", image).returncode == 0
    done = tessera("run", "--disk", image, "--user", "app", "sh", "-c",
                   "busybox cat /bin/sh2 /rw/new /etc/hosts; busybox id -u; "
                   "busybox id -g")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"x\nnew\n10.1.1.1 stale\n1000\n1001\n"


def test_a_container_image_runs_as_it_says(tessera, tmp_path):
    layer = io.BytesIO()
    with open(BUSYBOX, "rb") as f, tarfile.open(fileobj=layer, mode="w") as tar:
        for name, data, mode, owner in (("bin/sh", f.read(), 0o755, 0),
                                        ("etc/passwd", PASSWD, 0o644, 0),
                                        ("home/app/mine", b"mine\n", 0o600, 1000)):  # fmt: skip
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.uid, info.gid = len(data), mode, owner, owner
            tar.addfile(info, io.BytesIO(data))
    digest = "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest]},
        "config": {"Entrypoint": ["sh", "-c"], "Cmd": ["echo $0 $X $HOME; pwd; read a <mine; "
                   "echo $a; echo >/etc/x"], "Env": ["PATH=/bin", "X=1"], "User": "app",
                   "WorkingDir": "/home/app"}}).encode()  # fmt: skip
    name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": ["app:1"], "Layers": ["layer.tar"]}])
    with tarfile.open(tmp_path / "app.tar", "w") as tar:
        for member, data in ((name, config), ("layer.tar", layer.getvalue()),
                             ("manifest.json", manifest.encode())):  # fmt: skip
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    done = tessera("run", "--image", tmp_path / "app.tar")
    assert done.stdout == b"sh 1 /home/app\n/home/app\nmine\n"
    assert done.returncode != 0 and b"ermission denied" in done.stderr  # a user's, not root's
    assert b"app:1" in tessera("images").stdout
