# SPDX-License-Identifier: MIT
"""Programs of a Debian tree, unmodified, each with a job that does something: what they print and
how long they take, on Tessera and in a Linux guest with local memory.

The tree is made by debootstrap once, for root on a host that has it, and kept with its list of
packages as key. Both sides run the same script (JOBS, by programs_jobs.sh) on copies of one image
of it, all jobs in turn; what each job printed and took lies in /jobs/out of its copy afterwards. A
job works if it prints the same on both sides and its status, that of its first step that fails, is
0: a job that fails on Linux as well shows nothing.
"""

from __future__ import annotations

import hashlib
import math
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

import boot
import linux_guest

SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
HERE = pathlib.Path(__file__).resolve().parent
GOAL, MUST = 1.0, 1.3
LIMIT_S = 3600.0
IMAGE_ROOM_MIB = 1024
RAM_MIB = 1536
SUCCESS = "status 0\n"  # the end of what a job printed
Done = tuple[float, str]  # seconds and output of a job

PACKAGES = """
    bc cmake curl file gawk gcc gdb git golang-go imagemagick less libc6-dev libgomp1
    libmemcached-tools lua5.4 make memcached nano nginx-light nodejs octave openjdk-17-jdk-headless
    openssh-client openssh-server openssl perl postgresql procps python3 python3-numpy redis-server
    ruby rustc strace stress-ng supervisor tmux vim-tiny xz-utils zsh zstd
""".split()  # fmt: skip

# Each job, and the package whose version stands in the table.
JOBS = {
    "bash": "bash", "dash": "dash", "zsh": "zsh", "coreutils": "coreutils",
    "findutils": "findutils", "grep": "grep", "sed": "sed", "gawk": "gawk",
    "diffutils": "diffutils", "tar": "tar", "gzip": "gzip", "xz": "xz-utils", "zstd": "zstd",
    "perl": "perl-base", "python": "python3", "numpy": "python3-numpy", "lua": "lua5.4",
    "ruby": "ruby", "gcc": "gcc", "openmp": "libgomp1", "make": "make", "cmake": "cmake",
    "git": "git", "openssl": "openssl", "vim": "vim-tiny", "nano": "nano", "tmux": "tmux",
    "gdb": "gdb", "strace": "strace", "go": "golang-go", "rust": "rustc",
    "java": "openjdk-17-jdk-headless", "node": "nodejs", "octave": "octave",
    "imagemagick": "imagemagick", "redis": "redis-server", "memcached": "memcached",
    "nginx": "nginx-light", "postgres": "postgresql", "ssh": "openssh-server",
    "supervisor": "supervisor", "apt": "apt", "stress": "stress-ng",
}  # fmt: skip


class Unavailable(RuntimeError):
    """This host cannot make the tree, and why."""


def tree() -> pathlib.Path:
    """A Debian tree with PACKAGES and the jobs."""
    key = hashlib.sha256(" ".join([SUITE, *PACKAGES]).encode()).hexdigest()[:12]
    top = boot.BUILD / "bench" / f"debian-{key}"
    if not (top / "complete").exists():
        if not shutil.which("debootstrap"):
            raise Unavailable("this host has no debootstrap")
        shutil.rmtree(top, ignore_errors=True)
        top.mkdir(parents=True)
        for command in (
            # It mounts file systems in the tree: killed, it leaves none in the host's name space.
            ["unshare", "-m", "debootstrap", "--variant=minbase", SUITE, top / "root", MIRROR],
            # Some packages look at /proc when they are installed.
            ["unshare", "-m", "sh", "-c", 'mount -t proc none "$0/proc" && exec chroot "$0" "$@"',
             top / "root", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-qy",
             "--no-install-recommends", *PACKAGES],
            ["chroot", top / "root", "apt-get", "clean"],
        ):  # fmt: skip
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
            if done.returncode:
                raise Unavailable(f"{command[0]}: {done.stderr.decode(errors='replace')[-300:]}")
        (top / "complete").touch()
    root = top / "root"
    shutil.rmtree(root / "jobs", ignore_errors=True)
    (root / "jobs" / "out").mkdir(parents=True)
    shutil.copy2(HERE / "programs_jobs.sh", root / "jobs" / "jobs.sh")
    return root


def make_image(root: pathlib.Path, image: pathlib.Path) -> None:
    used = subprocess.run(["du", "-sm", root], check=True, capture_output=True, text=True)
    mib = int(used.stdout.split()[0]) * 5 // 4 + IMAGE_ROOM_MIB
    subprocess.run(
        [boot.packages.require("mke2fs")[0], "-q", "-F", "-t", "ext4", "-b", "4096", "-d", root,
         image, f"{mib}M"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def results(image: pathlib.Path) -> dict[str, Done]:
    """Seconds and output, with the status, of each job that ended."""
    with tempfile.TemporaryDirectory(prefix="bench-programs-") as where:
        subprocess.run(
            [boot.packages.require("debugfs")[0], "-R", f"rdump /jobs/out {where}", image],
            check=True, capture_output=True,
        )  # fmt: skip
        out = {}
        for said in pathlib.Path(where, "out").glob("*.ns"):
            text = said.with_suffix(".out").read_text(errors="replace")
            out[said.stem] = (int(said.read_text()) / 1e9, text)
        return out


def on_tessera(image: pathlib.Path, names: list[str]) -> dict[str, Done]:
    args = ("--net", "none", "--disk", str(image), "--excache", f"{RAM_MIB}M", "--memory",
            f"processor={RAM_MIB + 512}M", "--memory", f"memory={2 * RAM_MIB}M")  # fmt: skip
    running = boot.Running(args, None, "bench-programs").up()
    try:
        running.run(["/bin/sh", "/jobs/jobs.sh", *names], cwd="/", limit=LIMIT_S)
    finally:
        running.close()
    return results(image)


def on_linux(image: pathlib.Path, names: list[str]) -> dict[str, Done]:
    linux_guest.on_linux(
        image,
        "for d in proc:proc sys:sysfs dev:devtmpfs run:tmpfs; do\n"
        "\tmount -t ${d#*:} none /mnt/${d%:*}\n"
        "done\n"
        "mkdir -p /mnt/dev/pts /mnt/dev/shm && mount -t devpts none /mnt/dev/pts\n"
        "ln -s /proc/self/fd /mnt/dev/fd\n"  # as udev and container run-times do
        "mount -t tmpfs none /mnt/dev/shm && ifconfig lo 127.0.0.1 up && hostname tessera\n"
        f"chroot /mnt /bin/sh /jobs/jobs.sh {' '.join(names)} >/dev/null 2>&1\n"
        "umount /mnt/dev/shm /mnt/dev/pts /mnt/dev /mnt/run /mnt/sys /mnt/proc\n"
        "sync",
        "rw", ram_mib=RAM_MIB + 512, limit=LIMIT_S,
    )  # fmt: skip
    return results(image)


def version(root: pathlib.Path, package: str) -> str:
    status = (root / "var/lib/dpkg/status").read_text()
    found = re.search(rf"^Package: {re.escape(package)}\n(?:.+\n)*?Version: (.+)$", status, re.M)
    return re.sub(r"^\d+:", "", found[1]) if found else "-"


def first_difference(ours: str, linux: str) -> str:
    for mine, theirs in zip(ours.splitlines() + [""], linux.splitlines() + [""], strict=False):
        if mine != theirs:
            return f"{mine[:60]!r} for {theirs[:60]!r}"
    return "its end"


def verdict(ours: list[Done | None], linux: list[Done | None]) -> tuple[str, bool]:
    """Of one job's runs, None for what did not end: "works", or why it does not count; and whether
    both did enough for their times to be compared.
    """
    if None in linux:
        return "did not end on Linux", False
    if None in ours:
        return "did not end", False
    differ = next((first_difference(a[1], b[1]) for a, b in zip(ours, linux, strict=True)
                   if a[1] != b[1]), None)  # fmt: skip
    if not all(text.endswith(SUCCESS) for _, text in linux):
        return f"fails on Linux: {differ}" if differ else "fails on Linux, too", False
    return differ or "works", True


def measure(repeat: int, row, names: list[str] | None = None) -> list:
    """Rows made by row(name, unit, value, baseline, what, goal, raw, must)."""
    names = names or list(JOBS)
    root = tree()
    got: dict[str, tuple[list, list]] = {n: ([], []) for n in names}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="bench-programs-", dir=root.parent) as where:
            ours, linux = (pathlib.Path(where, n) for n in ("ours.img", "linux.img"))
            make_image(root, ours)
            subprocess.run(["cp", "--sparse=always", ours, linux], check=True)
            for side, done in enumerate((on_tessera(ours, names), on_linux(linux, names))):
                for name in names:
                    got[name][side].append(done.get(name))
    rows, ratios = [], []
    for name in names:
        ours, linux = got[name]
        said, timed = verdict(ours, linux)
        title = f"{name} {version(root, JOBS[name])}: {said}"
        if not timed:
            rows.append(row(title, "s", 0, None, ""))
            continue
        times = [[seconds for seconds, _ in side] for side in (ours, linux)]
        rows.append(row(title, "s", statistics.median(times[0]), statistics.median(times[1]),
                        "a Linux guest", None, {"ours": times[0], "linux": times[1]}))  # fmt: skip
        if said == "works":
            ratios.append(rows[-1].ratio())
    mean = math.prod(ratios) ** (1 / len(ratios)) if ratios else 0
    return [
        *rows,
        row("programs that work", "", len(ratios), len(names), "all"),
        row("geometric mean of the ratios", "", mean, 1.0, "a Linux guest", GOAL, None, MUST),
    ]
