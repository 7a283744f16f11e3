# SPDX-License-Identifier: MIT
"""Container images: what is understood, and what is refused by name and touches nothing."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile

import pytest
from tessera_launcher import cache, disk, host, image, oci, treepath, unpack
from tessera_launcher.errors import LaunchError, UsageError
from tessera_launcher.ext4files import Files
from tessera_launcher.options import parse_run

FILE, DIR, LINK, HARD = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
CHAR, BLOCK, FIFO = tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE


def entry(name: str, kind=FILE, data: bytes | str = b"", mode=0o644, uid=0, gid=0, **pax):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, uid, gid, 1000
    info.pax_headers = pax
    if kind in (LINK, HARD):
        info.linkname = data
    elif kind == FILE:
        info.size = len(data)
    return info, data


def layer(*entries) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.type == FILE else None)
    return out.getvalue()


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def config(layers: list[bytes], arch="amd64", **run) -> bytes:
    return json.dumps({"architecture": arch, "os": "linux", "config": run,
                       "rootfs": {"type": "layers", "diff_ids": [sha(b) for b in layers]}}).encode()


class Layout:
    """An OCI layout that is being made; blobs may be changed before it is written."""

    def __init__(self):
        self.blobs: dict[str, bytes] = {}
        self.entries: list[dict] = []

    def blob(self, data: bytes) -> dict:
        self.blobs[sha(data)] = data
        return {"digest": sha(data), "size": len(data)}

    def manifest(self, layers: list[bytes], pack=lambda b: b, arch="amd64", **run) -> dict:
        out = {"schemaVersion": 2, "config": self.blob(config(layers, arch, **run)),
               "layers": [self.blob(pack(b)) for b in layers]}  # fmt: skip
        return {**self.blob(json.dumps(out).encode()), "platform": {
            "os": "linux", "architecture": arch}}  # fmt: skip

    def add(self, *args, name: str | None = None, **how) -> dict:
        entry = self.manifest(*args, **how)
        if name:
            entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        self.entries.append(entry)
        return entry

    def files(self) -> dict[str, bytes]:
        out = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
               "index.json": json.dumps({"manifests": self.entries}).encode()}  # fmt: skip
        return out | {"blobs/" + d.replace(":", "/"): b for d, b in self.blobs.items()}

    def to_dir(self, path: pathlib.Path) -> str:
        for name, data in self.files().items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return str(path)

    def to_tar(self, path: pathlib.Path, mode="w") -> str:
        return as_tar(path, self.files(), mode)


def as_tar(path: pathlib.Path, files: dict[str, bytes | str], mode="w") -> str:
    with tarfile.open(path, mode) as tar:
        for name, data in files.items():
            info, _ = entry(name, LINK if isinstance(data, str) else FILE, data)
            tar.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    return str(path)


def docker(layers: list[bytes], names=("app:latest",), **run) -> dict[str, bytes | str]:
    text = config(layers, **run)
    name = hashlib.sha256(text).hexdigest() + ".json"
    out = {f"{i}/layer.tar": data for i, data in enumerate(layers)}
    return {name: text, **out, "manifest.json": json.dumps(
        [{"Config": name, "RepoTags": list(names), "Layers": list(out)}]).encode()}  # fmt: skip


BASE = layer(
    entry("etc", DIR, mode=0o755), entry("etc/passwd", data=b"root:x:0:0::/root:/bin/sh\n"),
    entry("data", DIR, mode=0o750, uid=7, gid=8), entry("data/one", data=b"1", uid=7, gid=8),
    entry("data/two", data=b"2"), entry("bin", LINK, "usr/bin"), entry("usr/bin", DIR, mode=0o755),
    entry("usr/bin/tool", data=b"tool", mode=0o4755), entry("same", HARD, "usr/bin/tool"),
    entry("queue", FIFO), entry("old", DIR, mode=0o755), entry("old/x", data=b"x"),
    entry("secret", data=b"s", mode=0o000), entry("bin/late", data=b"through the link"),
)  # fmt: skip
UPPER = layer(
    entry("data/.wh.one"), entry("old/.wh..wh..opq"), entry("old/new", data=b"new"),
    entry("data/two", data=b"changed"), entry(".wh.nothing"), entry(".wh.queue"),
    entry("bin/later", data=b"later"),
)  # fmt: skip


def names_of(tree: unpack.Tree) -> dict[str, str]:
    return {path: node.kind for path, node in tree.walk()}


def tree_of(tmp_path, *layers: bytes) -> unpack.Tree:
    blobs = tmp_path / f"blobs{len(os.listdir(tmp_path))}"
    blobs.mkdir()
    tree = unpack.Tree(str(blobs))
    for data in layers:
        tree.add_layer(oci.Checked(io.BytesIO(data), "sha256", 1 << 30))
    return tree


def test_layers_whiteouts_and_links(tmp_path):
    tree = tree_of(tmp_path, BASE, UPPER)
    assert names_of(tree) == {
        "/etc": "dir", "/etc/passwd": "file", "/data": "dir", "/data/two": "file", "/bin": "link",
        "/usr": "dir", "/usr/bin": "dir", "/usr/bin/tool": "file", "/same": "file", "/old": "dir",
        "/old/new": "file", "/secret": "file", "/usr/bin/late": "file", "/usr/bin/later": "file",
    }  # fmt: skip
    assert tree.text("/data/two") == "changed" and tree.text("/bin/late") == "through the link"
    assert tree.find("/same") is tree.find("/usr/bin/tool")
    data = tree.find("/data")
    assert (data.mode, data.uid, data.gid, data.mtime) == (0o750, 7, 8, 1000)


def test_a_layers_own_files_survive_its_whiteouts(tmp_path):
    both = layer(entry("data/new", data=b"n"), entry(".wh.data"), entry("data/.wh..wh..opq"))
    assert {p for p in names_of(tree_of(tmp_path, BASE, both)) if p.startswith("/data")} == {
        "/data", "/data/new"}  # fmt: skip


def test_a_file_in_place_of_a_directory_and_back(tmp_path):
    one = layer(entry("data", data=b"file"))
    two = layer(entry("data", DIR), entry("data/x", data=b"x"))
    assert names_of(tree_of(tmp_path, BASE, one))["/data"] == "file"
    assert "/data/one" not in names_of(tree_of(tmp_path, BASE, one, two))


HOSTILE = {
    "an absolute name": (entry("/etc/evil", data=b"x"), "/etc/evil: is an absolute name"),
    "dots": (entry("a/../../evil", data=b"x"), "a/../../evil: leads out of the tree"),
    "dots alone": (entry("..", DIR), "..: leads out of the tree"),
    "a link out": (entry("out", LINK, "../../etc"), "out: links to ../../etc, out of the tree"),
    "an absolute link out": (entry("out", LINK, "/../x"), "out: links to /../x, out of the tree"),
    "an empty link": (entry("out", LINK, ""), "out: links to nothing"),
    "a hard link out": (entry("h", HARD, "../../etc/passwd"), "h: links to ../../etc/passwd"),
    "an absolute hard link": (entry("h", HARD, "/etc/passwd"), "h: links to /etc/passwd"),
    "a hard link to nothing": (entry("h", HARD, "none"), "h: is a link to none, which is no file"),
    "a hard link to a directory": (entry("h", HARD, "."), "h: is a link to ., which is no file"),
    "a device": (entry("dev/sda", BLOCK), "dev/sda: is a device node"),
    "a character device": (entry("null", CHAR), "null: is a device node"),
    "another kind": (entry("what", b"Z"), "what: is of an unknown kind"),
    "a long name": (entry("n" * 256, data=b""), "is no name that can be"),
    "a root that is a file": (entry("./", data=b""), "its root is no directory"),
    "a whiteout of dots": (entry("a/.wh..."), "a/.wh...: is no whiteout"),
    "an owner that cannot be": (entry("f", uid=1 << 32), "f: its uid is"),
    "control characters": (entry("a\x1b[2J\n/../x", data=b""), "a [2J /../x: leads out"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_entries_are_refused_by_name(tmp_path, what):
    bad, said = HOSTILE[what]
    with pytest.raises(oci.ImageError) as err:
        tree_of(tmp_path, BASE, layer(bad))
    assert said in str(err.value) and str(err.value).isprintable()


@pytest.mark.parametrize("target, said", [
    ("../..", None), ("/", None), ("/data/one", "is below something that is no directory"),
    ("loop", "too many symbolic links"),
])  # fmt: skip
def test_what_lies_below_links_stays_in_the_tree(tmp_path, target, said):
    links = layer(entry("a/b", DIR), entry("loop", LINK, "loop"), entry("a/b/link", LINK, target)
                  if target != "loop" else entry("a/b/link", LINK, "/loop"),
                  entry("a/b/link/evil", data=b"x"))  # fmt: skip
    if said:
        with pytest.raises(oci.ImageError, match=said):
            tree_of(tmp_path, BASE, links)
    else:
        assert "/evil" in names_of(tree_of(tmp_path, BASE, links))
    # A link that was harmless where it was made can lead out from where it is moved to by a layer.
    assert not os.path.lexists("/evil")


def test_archives_that_end_early(tmp_path):
    for cut in (100, 700, 5 * 512 + 10, len(BASE) // 2 + 7):
        with pytest.raises(oci.ImageError, match="truncated"):
            tree_of(tmp_path, BASE[:cut])
    broken = bytearray(BASE)
    broken[1536:1542] = b"\xff" * 6  # a header in the middle
    with pytest.raises(oci.ImageError, match="damaged"):
        tree_of(tmp_path, bytes(broken))


def test_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "BOMB_FROM", 1 << 20)
    layout = Layout()
    layout.add([layer(entry("zeroes", data=bytes(40 << 20)))], pack=gzip.compress)
    with pytest.raises(oci.ImageError, match="bomb"):
        unpacked(tmp_path, layout.to_dir(tmp_path / "l"))
    assert not (tmp_path / "made" / "blobs").exists()
    monkeypatch.setattr(unpack, "MAX_ENTRIES", 10)
    with pytest.raises(oci.ImageError, match="more than 10 files: a bomb"):
        tree_of(tmp_path, BASE)
    monkeypatch.setattr(unpack, "MAX_BYTES", 10)
    with pytest.raises(oci.ImageError, match="etc/passwd: the image is larger than"):
        tree_of(tmp_path, BASE)
    huge = entry("x", data=b"", **{"SCHILY.xattr.user.a": "x" * (2 << 20)})
    with pytest.raises(oci.ImageError, match="unbelievable size: a bomb"):
        tree_of(tmp_path, layer(huge))


# Which image, and its digests.


def opened(path: str, name: str | None = None) -> oci.Image:
    return oci.open_image(oci.open_source(path), name)


def run_tool(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def unpacked(tmp_path, path: str) -> tuple[pathlib.Path, dict]:
    source = oci.open_source(path)
    where = tmp_path / "made"
    where.mkdir(exist_ok=True)
    about = unpack.make(source, oci.open_image(source, None), str(where / "root.img"),
                        "/sbin/mke2fs", run_tool)  # fmt: skip
    return where / "root.img", about


@pytest.mark.parametrize("form", ["docker", "docker.gz", "oci.tar", "oci.tar.gz", "dir", "zstd"])
@pytest.mark.parametrize("root", [True, False])
def test_every_form_becomes_the_same_image(tmp_path, monkeypatch, form, root):
    """Without root the owners and modes come by debugfs."""
    if not root:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if form.startswith("docker"):
        path = as_tar(tmp_path / form, docker([BASE, UPPER]), "w:gz" if "gz" in form else "w")
    else:
        layout = Layout()
        pack = gzip.compress
        if form == "zstd":
            def pack(data):
                return subprocess.run(["zstd", "-qc"], input=data, capture_output=True).stdout
        layout.add([BASE, UPPER], pack=pack, name="app:latest")
        to = layout.to_dir if form in ("dir", "zstd") else layout.to_tar
        path = to(tmp_path / form, *(["w:gz"] if form.endswith("gz") else []))
    made, about = unpacked(tmp_path, path)
    assert about["name"] == "app:latest" and "root" in about["passwd"]
    with disk.Held(str(made), writable=False) as held, Files(held) as files:
        assert files.check("-n") == (0, files.check("-n")[1])
        said = {n: files._debugfs(f"stat {n}") for n in ("/data", "/usr/bin/tool", "/secret", "/")}
        assert files.read("/usr/bin/later") == "later" and files.kind("/data/one") is None
        assert files.kind("/dev") == "directory"
    assert "Mode:  0750" in said["/data"] and "User:     7   Group:     8" in said["/data"]
    assert "Mode:  04755" in said["/usr/bin/tool"] and "Links: 2" in said["/usr/bin/tool"]
    assert "Mode:  0000" in said["/secret"] and "User:     0   Group:     0" in said["/"]
    assert sorted(os.listdir(tmp_path / "made")) == ["root.img"]


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "/".join(['"' * 250] * 9)])
def test_names_that_are_no_words_for_debugfs(tmp_path, monkeypatch, name):
    """Their files would have had other owners, and no word of it."""
    path = as_tar(tmp_path / "i.tar", docker([layer(entry(name, uid=7))]))
    unpacked(tmp_path, path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(oci.ImageError, match="need root here"):
        unpacked(tmp_path, path)


def test_names_choose_among_images(tmp_path):
    layout = Layout()
    one, two = layout.add([BASE], name="app:1"), layout.add([UPPER], name="app:2")
    path = layout.to_dir(tmp_path / "l")
    with pytest.raises(oci.ImageError, match="several images; .*: app:1, app:2"):
        opened(path)
    assert opened(path, "2").layers[0].diff_id == sha(UPPER)
    assert opened(path, "app:1").name == "app:1" and one != two
    with pytest.raises(oci.ImageError, match="no image app:3"):
        opened(path, "app:3")


def test_architectures(tmp_path):
    layout = Layout()
    layout.add([BASE], arch="arm64")
    path = layout.to_dir(tmp_path / "arm")
    with pytest.raises(oci.ImageError, match="no image for linux/amd64, only for linux/arm64"):
        opened(path)
    layout.add([UPPER])
    inner = json.dumps({"manifests": layout.entries + [{
        **layout.blob(b"{}"), "platform": {"os": "unknown", "architecture": "unknown"}}]}).encode()
    layout.entries = [{**layout.blob(inner), "mediaType": oci.INDEX_TYPES[0]}]
    assert opened(layout.to_dir(tmp_path / "both")).layers[0].diff_id == sha(UPPER)
    path = as_tar(tmp_path / "d", docker([BASE], arch="s390x"))
    with pytest.raises(oci.ImageError, match="only for linux/s390x"):
        opened(path)


@pytest.mark.parametrize("which", ["manifest", "config", "layer"])
@pytest.mark.parametrize("how", ["changed", "cut", "longer"])
def test_wrong_digests(tmp_path, which, how):
    layout = Layout()
    entry_ = layout.add([BASE])
    manifest = json.loads(layout.blobs[entry_["digest"]])
    digest = {"manifest": entry_["digest"], "config": manifest["config"]["digest"],
              "layer": manifest["layers"][0]["digest"]}[which]  # fmt: skip
    data = layout.blobs[digest]
    bad = {"changed": data[:-1] + b"?", "cut": data[:-9], "longer": data + b" "}
    layout.blobs[digest] = bad[how]
    path = layout.to_tar(tmp_path / "x.tar")
    with pytest.raises(oci.ImageError, match="changed|truncated") as err:
        unpacked(tmp_path, path)
    assert digest[7:] in str(err.value)
    assert os.listdir(tmp_path / "made") == []


def test_wrong_digests_of_docker(tmp_path):
    files = docker([BASE])
    path = as_tar(tmp_path / "l", {**files, "0/layer.tar": UPPER})
    with pytest.raises(oci.ImageError, match="0/layer.tar does not have the digest"):
        unpacked(tmp_path, path)
    name = next(n for n in files if len(n) > 60)
    path = as_tar(tmp_path / "c", {**files, name: files[name].replace(b"linux", b"linuy")})
    with pytest.raises(oci.ImageError, match="does not have its digest"):
        opened(path)


@pytest.mark.parametrize("files, said", [
    ({}, "neither of docker save nor an OCI layout"),
    ({"manifest.json": b"[]"}, "it has no image"), ({"manifest.json": b"{"}, "is not JSON"),
    ({"manifest.json": b"[" * 100000}, "is not JSON"),
    ({"manifest.json": b"{}"}, "is not what it has to be"),
    ({"manifest.json": b'[{"Config": "../../etc/passwd"}]'}, "is missing in it"),
    ({"manifest.json": b'[{"Config": "x"}]', "x": "/etc/passwd"}, "is missing in it"),
    ({"manifest.json": b'[{"Config": "x"}]', "x": "x"}, "is missing in it"),
    ({"oci-layout": b"{}", "index.json": b'{"manifests": [{"digest": "sha256:../x"}]}'},
     "is no digest"),
    ({"oci-layout": b"{}", "index.json": b'{"manifests": [7]}'}, "is not what it has to be"),
])  # fmt: skip
def test_documents_that_make_no_sense(tmp_path, files, said):
    with pytest.raises(oci.ImageError, match=said):
        opened(as_tar(tmp_path / "x.tar", files))


def test_what_is_no_archive(tmp_path):
    for data in (b"", b"text", bytes(100), BASE[:300]):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(oci.ImageError):
            opened(str(tmp_path / "x"))


def test_links_of_a_layout_are_not_followed(tmp_path):
    path = tmp_path / "l"
    path.mkdir()
    (path / "oci-layout").symlink_to("/etc/passwd")
    (path / "index.json").symlink_to("/etc/passwd")
    with pytest.raises(oci.ImageError, match="neither"):
        opened(str(path))


# Running them.


def loaded(tmp_path, *args: str, words=(), **run) -> host.Host:
    path = as_tar(tmp_path / "i.tar", docker([BASE], **run))
    side = host.Host(parse_run(["--image", path, *args, *(["--", *words] if words else [])]))
    side.load_image()
    return side


RUN = {"Entrypoint": ["/bin/e", "-x"], "Cmd": ["c"], "Env": ["PATH=/p", "A=1"],
       "WorkingDir": "/w/d", "User": "7:8",
       "ExposedPorts": {"80/tcp": {}, "53/udp": {}}}  # fmt: skip


@pytest.mark.parametrize("args, words, want", [
    ([], [], ["/bin/e", "-x", "c"]), ([], ["d", "e"], ["/bin/e", "-x", "d", "e"]),
    (["--entrypoint", "/f"], [], ["/f"]), (["--entrypoint", "/f"], ["g"], ["/f", "g"]),
    (["--entrypoint", ""], ["g"], ["g"]),
])  # fmt: skip
def test_entry_point_and_command(tmp_path, args, words, want):
    side = loaded(tmp_path, *args, words=words, **RUN)
    assert [side.o.program, *side.o.args] == want


def test_environment_directory_user_and_ports(tmp_path):
    side = loaded(tmp_path, "--env", "A=2", "--publish-exposed", **RUN)
    assert side.o.env == ["PATH=/p", "A=1", "A=2"] and side.o.cwd == "/w/d"
    found = side.user()
    assert (found.uid, found.gid) == (7, 8) and side.o.net == "user"
    assert [p.text() for p in side.o.publish] == ["127.0.0.1:53 -> 53/udp",
                                                  "127.0.0.1:80 -> 80/tcp"]  # fmt: skip
    side = loaded(tmp_path, "--cwd", "/", "--user", "5:6", **RUN)
    assert side.o.cwd == "/" and side.user().uid == 5 and side.o.publish == []
    assert loaded(tmp_path, words=["x"]).user().uid == 0
    assert loaded(tmp_path, words=["./x"], WorkingDir="/w").guest_paths("./x") == ["/w/x"]


def test_an_image_without_a_program(tmp_path, launcher):
    path = as_tar(tmp_path / "i.tar", docker([BASE]))
    done = launcher.run("--image", path)
    assert done.returncode == 125 and b"names no program" in done.stderr


def test_an_image_is_kept_and_listed(tmp_path, launcher, monkeypatch):
    program = layer(entry("bin/true", data=b"x", mode=0o755))
    path = as_tar(tmp_path / "i.tar", docker([program], Cmd=["/bin/true"], User="0",
                                             Labels={"a": "b"}))  # fmt: skip
    for _ in range(2):
        done = launcher.run("--image", path, "--log-dir", tmp_path / "logs")
        assert (done.returncode, done.stderr) == (0, b"")
    text = (tmp_path / "logs" / "s0.argv").read_text()
    assert "format=qcow2" in text and "readonly=off" in text
    done = launcher.call("images", "--labels")
    rows = done.stdout.decode().splitlines()
    assert len(rows) == 4 and " image " in rows[1] and rows[1].endswith("app:latest")
    assert rows[2].strip() == "a=b"
    assert launcher.call("images", "--remove", rows[1].split()[0]).returncode == 0
    assert cache.Cache().entries() == []
    assert launcher.call("images", "--remove", "abc").returncode == 125


def test_a_hostile_image_is_one_line(tmp_path, launcher):
    path = as_tar(tmp_path / "i.tar", docker([layer(HOSTILE["dots"][0])], Cmd=["/bin/true"]))
    done = launcher.run("--image", path)
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1
    assert b"i.tar: a/../../evil: leads out of the tree" in done.stderr
    assert [n for n in os.listdir(tmp_path / "cache" / "images") if n != "lock"] == []
    assert not list(launcher.run_dir.iterdir())


@pytest.mark.parametrize("args, text", [
    (["--image", "/nonexistent.tar"], "does not exist"),
    (["--image", "/etc/passwd", "--rootfs", "/etc"], "exclude each other"),
    (["--entrypoint", "x", "p"], "are for --image"),
    (["--publish-exposed", "p"], "are for --image"),
    (["--image", "/etc/passwd", "--publish-exposed", "--net", "none", "p"],
     "goes with --net user, not --net none"),
    (["--image", "/etc/passwd", "--sweep", "50", "p"], "does not go with --image"),
])  # fmt: skip
def test_options_that_make_no_sense(args, text):
    with pytest.raises(UsageError, match=text):
        parse_run(args)


# Volumes never leave the tree either.


def test_volumes_do_not_follow_links_out_of_a_tree(tmp_path):
    outside, stage = tmp_path / "outside", tmp_path / "stage"
    outside.mkdir()
    stage.mkdir()
    (stage / "run").symlink_to(outside)
    (stage / "up").symlink_to("../outside")
    (stage / "file").symlink_to(outside / "target")
    tree = image.Tree()
    tree.add_volume("/etc/hostname", "/run/x/name")
    tree.add_volume("/etc/hostname", "/up/name")
    tree.add_volume("/etc/hostname", "/file")
    tree.stage(str(stage))
    assert list(outside.iterdir()) == []
    assert (stage / str(outside)[1:] / "x" / "name").is_file()
    assert (stage / "outside" / "name").is_file() and (stage / "file").is_file()
    (stage / "plain").write_text("x")
    with pytest.raises(LaunchError, match="no directory of the tree"):
        treepath.place(str(stage), "/plain/x")
