# SPDX-License-Identifier: MIT
"""--strace: what a line says of a call, and which node is said to have served it."""

import re

SHELL = "/usr/bin/busybox"
SCRIPT = r"""
cd /data; echo "a	b" >/tmp/file; chmod 640 /tmp/file; ln -s file /tmp/link; readlink /tmp/link
head -c 5 text.small >/dev/null; cat /nosuch; (exit 3); trap 'exit 7' USR1; kill -USR1 $$
"""
TIME = r" <\d+ us> "
MEMORY = r"memory \d+ \(\d+\)(, memory \d+ \(\d+\))*"
# Names that were seen before cost no message while this is the only processor.
KEPT = r"(local|storage \d+ \(1\))"
# In this order; each the whole of a line after the number of the task.
LINES = [
    r'uname\({sysname="Linux", nodename="\w+", release="[^"]+", ...}\) = 0' + TIME + "local",
    r'chdir\("/data"\) = 0' + TIME + KEPT,
    r'openat\(AT_FDCWD, "/tmp/file", O_WRONLY\|O_CREAT\|O_TRUNC, 0666\) = 3' + TIME + "local",
    r"dup2\(3, 1\) = 1" + TIME + "local",
    r'write\(1, "a\\tb\\n", 4\) = 4' + TIME + MEMORY,
    r'chmod\("/tmp/file", 0640\) = 0' + TIME + "local",
    r'symlink\("file", "/tmp/link"\) = 0' + TIME + "local",
    r'readlink\("/tmp/link", "file", \d+\) = 4' + TIME + "local",
    r'openat\(AT_FDCWD, "text.small", O_RDONLY, 0\) = 3' + TIME + r"storage \d+ \(1\)",
    r'openat\(AT_FDCWD, "/nosuch", O_RDONLY, 0\) = -1 ENOENT' + TIME + r"storage \d+ \(1\)",
    r"clone\(CLONE_CHILD_CLEARTID\|CLONE_CHILD_SETTID\|SIGCHLD, NULL, NULL, 0x\w+, 0\) = (\d+)"
    + TIME + MEMORY,
    r"exit_group\(3\) = \?",
    r"wait4\(-1, \[exited with 3\], 0, NULL\) = \d+" + TIME + "local",
    r"rt_sigaction\(SIGUSR1, {sa_handler=0x\w+, sa_mask=~\[SIGRT_0 SIGRT_1\], "
    r"sa_flags=SA_RESTORER}, NULL, 8\) = 0" + TIME + "local",
    r"kill\(\d+, SIGUSR1\) = 0" + TIME + "local",
    r"--- SIGUSR1, code 0: handler ---",
    r"exit_group\(7\) = \?",
]  # fmt: skip


def lines_of(cluster, before=0):
    text = cluster.log("p0")[before:]
    return [m[1] for m in re.finditer(r"strace: (.*)", text)]


def test_lines_and_who_served(pool):
    cluster = pool.get("--strace")
    before = len(cluster.log("p0"))
    got = cluster.run([SHELL, "sh", "-c", SCRIPT])
    assert got.status == 7
    lines = lines_of(cluster, before)
    at = 0
    for want in LINES:
        found = [
            i for i in range(at, len(lines)) if re.fullmatch(r"\d+ (?:" + want + ")", lines[i])
        ]
        assert found, f"no {want} after line {at}:\n" + "\n".join(lines)
        at = found[0] + 1
    # Each is a whole: however many tasks there are, no line is in another one.
    assert all(
        re.match(r"\d+ (\w+\(.*\) = .*|--- SIG\w+, code -?\d+: \w.* ---)$", x) for x in lines
    )


def test_what_programs_pass_cannot_forge_lines(pool):
    cluster = pool.get("--strace")
    before = len(cluster.log("p0"))
    name = '/tmp/x\n[    0.1] node1 info: strace: 1 forged("\x1b'
    assert cluster.run([SHELL, "mkdir", name]).status == 0
    line = [x for x in lines_of(cluster, before) if "forged" in x and "mkdir(" in x]
    assert len(line) == 1 and '"/tmp/x\\n[    0.1] node1' in line[0]
    assert "\x1b" not in cluster.log("p0")[before:]
