# SPDX-License-Identifier: MIT
"""Each checker of scripts/, tried on a small right tree and on deliberate mistakes in it."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
SPDX = "/* SPDX-License-Identifier: MIT */\n"

TREE = {
    "lib/include/lib/types.h": SPDX + "#pragma once\n\n#include <stdint.h>\n",
    "lib/types.c": SPDX + "#include <lib/types.h>\n",
    "arch/x86/include/arch/cpu.h": SPDX + "#pragma once\n\n#include <lib/types.h>\n",
    "arch/x86/cpu.c": SPDX + "#include <arch/cpu.h>\n\n#include <kernel/lock.h>\n",
    "kernel/include/kernel/lock.h": SPDX + "#pragma once\n\n#include <arch/cpu.h>\n",
    "net/include/net/rpc.h": SPDX + "#pragma once\n\n#include <kernel/lock.h>\n",
    "monitors/proto/include/proto/pm.h": SPDX + "#pragma once\n\n#include <lib/types.h>\n",
    "monitors/memory/include/memory/owner.h": SPDX + "#pragma once\n\n#include <proto/pm.h>\n",
    "monitors/memory/owner.c": SPDX + "#include <memory/owner.h>\n\n#include \"vma.h\"\n",
    "monitors/memory/vma.h": SPDX + "#pragma once\n\n#ifdef CONFIG_ROLE_MEMORY\n#endif\n",
    "monitors/processor/client/pm.c": SPDX + "#include <net/rpc.h>\n#include <proto/pm.h>\n",
    "monitors/processor/mm/y.h": SPDX + "#pragma once\n",
    "monitors/processor/mm/y_private.h": SPDX + "#pragma once\n\n#include \"y.h\"\n",
    "monitors/processor/vfs/file.h": SPDX + "#pragma once\n",
    "monitors/processor/mm/mmap_calls.c": SPDX + "#include <processor/vfs/file.h>\n",
    "monitors/processor/main.c": SPDX + "#include <processor/vfs/file.h>\n",
    "managers/include/managers/placement.h": SPDX + "#pragma once\n",
    "monitors/processor/vfs/file.c": SPDX + "#include \"file.h\"\n\n#include <processor/mm/y.h>\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(TOP / ".clang-format", tmp_path)
    return tmp_path


def check(tree, which, *args):
    """Run a checker on the tree; its status and what it said."""
    env = dict(os.environ, GIT_CEILING_DIRECTORIES=str(tree.parent))
    done = subprocess.run(
        [sys.executable, str(TOP / f"scripts/check-{which}.py"), "--root", str(tree), *args],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def write(tree, name, text, spdx=True):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((SPDX if spdx else "") + text)


def refuses(tree, which, said, *args):
    status, text = check(tree, which, *args)
    assert status == 1, text
    assert said in text, text


def accepts(tree, which, *args):
    status, text = check(tree, which, *args)
    assert status == 0, text


# --- layers


def test_layers_accept_the_tree(tree):
    accepts(tree, "layers")


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("lib/x.c", "#include <kernel/lock.h>\n", "lib/ may not include kernel/"),
        (
            "arch/x86/include/arch/x.h",
            "#include <kernel/lock.h>\n",
            "arch/ may not include kernel/",
        ),
        ("kernel/x.c", "#include <net/rpc.h>\n", "kernel/ may not include net/"),
        ("net/x.c", "#include <proto/pm.h>\n", "net/ may not include monitors/proto/"),
        ("monitors/proto/x.c", "#include <memory/owner.h>\n", "may not include monitors/memory/"),
        ("monitors/cluster/x.c", "#include <memory/owner.h>\n", "may not include monitors/memory/"),
        (
            "monitors/processor/x.c",
            "#include <memory/owner.h>\n",
            "only monitors/memory/ may include",
        ),
        ("managers/x.c", "#include <memory/owner.h>\n", "only monitors/memory/ may include"),
        ("monitors/processor/x.c", '#include "../memory/vma.h"\n', "stays in its own folder"),
        ("monitors/processor/vfs/x.c", "#include <processor/mm/y_private.h>\n", "a private header"),
        ("monitors/processor/mm/x.c", "#include <processor/mm/y.h>\n", "its own headers by quotes"),
        ("monitors/processor/mm/x.c", "#include <processor/vfs/file.h>\n", "mm/ lies below vfs/"),
        ("monitors/processor/vdso/x.c", "#include <processor/vfs/file.h>\n", "lies below vfs/"),
        ("monitors/processor/mm/y.h", "#pragma once\n#include <processor/vfs/file.h>\n",
         "below vfs/"),
        ("monitors/processor/new/x.c", "#include <processor/vfs/file.h>\n", "new has no layer"),
        ("monitors/processor/excache/x.c", "#include <managers/placement.h>\n", "is told what"),
        ("monitors/processor/vfs/x.c", "#include <proto/ps.h>\n", "stay at the edge"),
        ("monitors/processor/mm/x.c", "int x = PM_MMAP;\n", "PM_MMAP: the protocols stay"),
        ("monitors/processor/mm/y.h", "#pragma once\nstruct proto_attr;\n", "proto_attr: the"),
        ("monitors/processor/tty/x.c", "/* As PS_LOOKUP answers. */\n", "PS_LOOKUP: the"),
        ("monitors/processor/main.c", "#include <proto/pm.h>\n", "stay at the edge"),
        ("monitors/processor/vfs/x.c", "#include <processor/client/convert.h>\n", "at the edge"),
        ("monitors/processor/excache/x.c", '#include "home_wire.h"\n', "at the edge"),
        ("monitors/processor/mm/y.c", '#include "y_private.h"\n#include "y.h"\n', "its own header"),
        ("kernel/x.c", "#include <stdio.h>\n", "no such public header"),
        ("kernel/x.c", "#include <kernel/none.h>\n", None),
        ("net/x.c", "#if IS_ENABLED(CONFIG_ROLE_MEMORY)\n#endif\n", "which monitor is being built"),
        ("net/Makefile.c", "int x = CONFIG_ROLE_STORAGE;\n", "which monitor is being built"),
        ("kernel/lock.c", "#include <lib/types.h>\n#include <kernel/lock.h>\n", "its own header"),
        ("lib/x.c", "#ifndef __TESSERA_HOST__\n#include <stdio.h>\n#endif\n", "no such public"),
        ("lib/x.c", "#ifdef __TESSERA_HOST__\n#else\n#include <stdio.h>\n#endif\n", "no such"),
    ],
)
def test_layers_refuse(tree, name, text, said):
    write(tree, name, text)
    if said is None:  # a missing header of a known prefix is the compiler's to report
        accepts(tree, "layers")
    else:
        refuses(tree, "layers", said)


@pytest.mark.parametrize(
    "name", ["client/x.c", "client/y.h", "excache/owner.c", "excache/home.c", "mm/remote.c"]
)
def test_layers_let_the_edge_know_the_protocols(tree, name):
    text = "#include <proto/pm.h>\nint x = PM_EXEC; /* pm_exec_req */\n"
    write(tree, f"monitors/processor/{name}", "#pragma once\n" * name.endswith(".h") + text)
    accepts(tree, "layers")


def test_layers_let_host_code_use_the_c_library(tree):
    write(
        tree,
        "lib/x.c",
        "#ifdef __TESSERA_HOST__\n#include <stdio.h>\n#endif\n#include <stddef.h>\n",
    )
    accepts(tree, "layers")


# --- locks

LOCKED = """
#include <kernel/mutex.h>
#include <kernel/rwsem.h>
#include <kernel/spinlock.h>

struct set {
	struct spinlock lock;
	struct mutex m;
	struct rwsem s;
	int n __guarded_by(&lock);
	int k __guarded_by(&m);
	int r __guarded_by(&s);
};

static void add_locked(struct set *s) __must_hold(&s->lock)
{
	assert_spin_held(&s->lock);
	s->n++;
}
"""
RIGHT = """
	const unsigned long flags = spin_lock_irqsave(&s->lock);

	add_locked(s);
	spin_unlock_irqrestore(&s->lock, flags);
	if (spin_trylock(&s->lock)) {
		s->n = 0;
		spin_unlock(&s->lock);
	}
	mutex_lock(&s->m);
	s->k++;
	mutex_unlock(&s->m);
	rwsem_write_lock(&s->s);
	s->r = READ_ONCE(s->n);
	rwsem_write_unlock(&s->s);
	rwsem_read_lock(&s->s);
	s->k = s->r;
"""


def commands(tree, source):
    """Have each image consist of this one file, which uses the real headers."""
    flags = " ".join(f"-I{TOP}/{layer}/include" for layer in ("lib", "arch/x86", "kernel", "mm"))
    for role in ("processor", "memory", "storage"):
        folder = tree / "build" / role
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".commands").write_text(f"\n{source}|gcc {flags} -std=gnu11 -ffreestanding -c\n")


def check_locks(tree, body, *args, attributes=""):
    """The checker's answer for one function of the folder kernel/."""
    write(
        tree,
        "kernel/x.c",
        f"{LOCKED}\nvoid f(struct set *s) {attributes};\nvoid f(struct set *s)\n{{{body}}}\n",
    )
    commands(tree, "kernel/x.c")
    (tree / "scripts").mkdir(exist_ok=True)
    return check(tree, "locks", "--build", str(tree / "build"), *args)


def test_locks_accept(tree):
    body = RIGHT.replace("	s->k = s->r;\n", "	rwsem_read_unlock(&s->s);\n")
    status, text = check_locks(tree, body)
    assert status == 0, text
    assert "1 files, 0 with warnings" in text


@pytest.mark.parametrize(
    "body, said",
    [
        ("s->n++;", "writing variable 'n' requires holding spinlock"),
        ("add_locked(s);", "calling function 'add_locked' requires holding spinlock 's->lock'"),
        ("spin_lock(&s->lock); s->n = 1;", "spinlock 's->lock' is still held at the end"),
        ("spin_lock(&s->lock); spin_lock(&s->lock); spin_unlock(&s->lock);", "already held"),
        ("mutex_unlock(&s->m);", "releasing mutex 's->m' that was not held"),
        ("mutex_lock(&s->m); if (s->k) return; mutex_unlock(&s->m);", "not held on every path"),
        ("if (!spin_trylock(&s->lock)) s->n = 1; else spin_unlock(&s->lock);",
         "writing variable 'n'"),
        ("rwsem_read_lock(&s->s); s->r = 1; rwsem_read_unlock(&s->s);", "writing variable 'r'"),
    ],
)
def test_locks_refuse(tree, body, said):
    status, text = check_locks(tree, body)
    assert status == 1, text
    assert said in text, text


def test_locks_take_a_folder(tree):
    assert "1 files, 1 with" in check_locks(tree, "s->n++;", "kernel/")[1]
    assert "0 files, 0 with" in check_locks(tree, "s->n++;", "lib")[1]


def test_locks_do_not_look_where_they_are_told_not_to(tree):
    status, text = check_locks(tree, "s->n++;", attributes='__no_lock_analysis("a test")')
    assert status == 0, text
    assert check_locks(tree, 'lock_not_needed(&s->lock, "a test"); s->n++;')[0] == 0


def test_locks_see_a_change_of_a_clean_file(tree):
    assert check_locks(tree, "(void)s;")[0] == 0
    assert check_locks(tree, "s->n++;")[0] == 1
    assert check_locks(tree, "s->n++;")[0] == 1
    assert check_locks(tree, "(void)s;")[0] == 0


# --- sparse

TYPED = """
#include <arch/uaccess.h>
#include <kernel/percpu.h>
#include <lib/byteorder.h>

struct wire {
	le32_t len;
	be16_t port;
};
static DEFINE_PERCPU(uint32_t, count);

static inline uint32_t right(const struct wire *w, uint64_t __user *u)
{
	uint64_t v = le32_to_cpu(w->len) + be16_to_cpu(w->port) + *this_cpu_ptr(&count);

	return percpu_read(count) + (get_user_u64(&v, u) ? 0 : (uint32_t)v);
}
"""


def check_sparse(tree, body):
    arguments = "const struct wire *w, uint64_t __user *u, uint32_t __iomem *r"
    text = f"{TYPED}\nuint32_t f({arguments});\nuint32_t f({arguments})\n{{\n\treturn {body};\n}}\n"
    write(tree, "kernel/x.c", text)
    commands(tree, "kernel/x.c")
    return check(tree, "sparse", "--build", str(tree / "build"))


needs_sparse = pytest.mark.skipif(not shutil.which("sparse"), reason="no sparse here")


@needs_sparse
def test_sparse_accepts(tree):
    status, text = check_sparse(tree, "right(w, u)")
    assert status == 0, text
    assert "1 files, 0 with findings" in text


@needs_sparse
@pytest.mark.parametrize(
    "body, said",
    [
        ("w->len + 1", "restricted le32_t degrades to integer"),
        ("le32_to_cpu(w->port)", "incorrect type in argument 1 (different base types)"),
        ("be16_to_cpu(5)", "different base types"),
        ("(uint32_t)*u", "dereference of noderef expression"),
        ("*r", "dereference of noderef expression"),
        ("count + 1", "dereference of noderef expression"),
        ("right(w, (uint64_t *)8)", "different address spaces"),
    ],
)
def test_sparse_refuses(tree, body, said):
    status, text = check_sparse(tree, body)
    assert status == 1, text
    assert said in text, text


# --- headers


def test_headers_accept_the_tree(tree):
    accepts(tree, "headers")


def test_headers_refuse_one_that_needs_another(tree):
    write(tree, "kernel/include/kernel/x.h", "#pragma once\n\nuint32_t f(void);\n")
    refuses(tree, "headers", "kernel/include/kernel/x.h: does not compile alone")


def test_headers_refuse_one_without_pragma(tree):
    write(tree, "kernel/include/kernel/x.h", "int f(void);\n")
    refuses(tree, "headers", "no #pragma once")


def test_headers_refuse_hosted_ones_in_the_kernel(tree):
    write(tree, "kernel/include/kernel/x.h", "#pragma once\n\n#include <stdio.h>\n")
    refuses(tree, "headers", "does not compile alone")


# --- format, licence


def clang_format():
    tool = pathlib.Path(sys.executable).parent / "clang-format"
    if not tool.exists():
        pytest.skip("clang-format is not installed beside this Python")
    return ["--tool", str(tool)]


def test_format(tree):
    accepts(tree, "format", *clang_format())
    write(tree, "lib/x.c", "int f( void ) { return 1; }\n")
    refuses(tree, "format", "lib/x.c", *clang_format())
    accepts(tree, "format", *clang_format(), "--fix")
    assert (tree / "lib/x.c").read_text() == SPDX + "int f(void)\n{\n\treturn 1;\n}\n"
    accepts(tree, "format", *clang_format())


@pytest.mark.parametrize("name", ["lib/x.c", "scripts/x.py", "scripts/tool", "fs/Makefile"])
def test_spdx(tree, name):
    accepts(tree, "spdx")
    write(tree, name, "#!/bin/sh\ntrue\n", spdx=False)
    refuses(tree, "spdx", f"{name}: no 'SPDX")


def test_spdx_comes_early(tree):
    write(tree, "lib/x.c", "\n\n\n" + SPDX, spdx=False)
    refuses(tree, "spdx", "lib/x.c")


# --- documents


@pytest.fixture
def documented(tree):
    write(tree, "kernel/param.c", 'BOOT_PARAM("a.b", u32, var, "help");\n'
          '/* BOOT_PARAM("only.an.example", u32, var, "help"); */\n'
          'BOOT_PARAM_CB_CRITICAL(\n\t"node", fn, "help");\n')
    write(tree, "kernel/param_test.c", 'BOOT_PARAM("test.only", u32, var, "help");\n')
    write(
        tree,
        "kernel/include/kernel/lock_rank.h",
        "#pragma once\nenum lock_rank {\n\tRANK_A = 1,\n};\n",
    )
    write(
        tree,
        "docs/boot-params.md",
        "| name | type |\n|---|---|\n| `a.b` | u32 |\n| `node=` | id |\n",
        spdx=False,
    )
    write(tree, "docs/locking.md", "| rank |\n|---|\n| `RANK_A` |\n", spdx=False)
    return tree


def test_docs_accept_the_tree(documented):
    accepts(documented, "docs")


def test_docs_want_every_parameter(documented):
    write(documented, "net/x.c", 'BOOT_PARAM("rpc.slots", u32, slots, "help");\n')
    refuses(documented, "docs", "boot parameter rpc.slots has no row")


def test_docs_refuse_rows_of_nothing(documented):
    with open(documented / "docs/boot-params.md", "a", encoding="utf-8") as page:
        page.write("| `gone` | u32 |\n")
    refuses(documented, "docs", "boot parameter gone is not declared")


def test_docs_refuse_a_second_row(documented):
    with open(documented / "docs/boot-params.md", "a", encoding="utf-8") as page:
        page.write("\n| name | type |\n|---|---|\n| `a.b` | u32 |\n")
    refuses(documented, "docs", "boot parameter a.b has 2 rows")


def test_docs_want_every_rank(documented):
    write(documented, "docs/locking.md", "| rank |\n|---|\n", spdx=False)
    refuses(documented, "docs", "lock rank RANK_A has no row")


def test_docs_refuse_dead_anchors(documented):
    page = """# A page

## Life of a `read()`, and more

```
# no heading
```

## Twice
## Twice
"""
    write(documented, "docs/page.md", page, spdx=False)
    index = "[p](page.md) [l](locking.md) [b](boot-params.md)\n\n## Use it\n"
    for right in (
        "page.md#life-of-a-read-and-more", "page.md#twice", "page.md#twice-1", "#use-it"
    ):  # fmt: skip
        write(documented, "docs/index.md", f"{index}[x]({right})\n", spdx=False)
        accepts(documented, "docs")
    for wrong in ("page.md#no-heading", "page.md#twice-2", "#use", "page.md#Twice"):
        write(documented, "docs/index.md", f"{index}[x]({wrong})\n", spdx=False)
        refuses(documented, "docs", f"docs/index.md: link to {wrong} leads to no heading")


def test_docs_refuse_dead_links(documented):
    right = "[a](boot-params.md) [b](https://example.org) [c](locking.md)\n"
    write(documented, "docs/index.md", right, spdx=False)
    accepts(documented, "docs")
    write(documented, "docs/index.md", "[a](nowhere.md)\n", spdx=False)
    refuses(documented, "docs", "link to nowhere.md leads nowhere")


def test_docs_want_every_page_in_the_index(documented):
    write(documented, "docs/index.md", "[a](boot-params.md)\n", spdx=False)
    refuses(documented, "docs", "no link to docs/locking.md")


def test_docs_want_the_syscall_page_in_step(documented):
    table = TOP / "monitors/processor/syscall/syscall.tbl"
    generator = TOP / "scripts/gen-syscalls.py"
    if not table.exists():
        pytest.skip("no system call table")
    for source in (table, generator):
        target = documented / source.relative_to(TOP)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    refuses(documented, "docs", "docs/syscalls.md is out of date")
    page = subprocess.run(
        [sys.executable, "scripts/gen-syscalls.py", "md", "monitors/processor/syscall/syscall.tbl"],
        cwd=documented, capture_output=True, text=True, check=True,
    ).stdout
    (documented / "docs/syscalls.md").write_text(page)
    accepts(documented, "docs")


# --- wide lines


@pytest.mark.parametrize(
    "name, text",
    [
        ("lib/x.c", "/* " + "a" * 96 + " */\n"),
        ("lib/x.S", "/*\n\t" + "a" * 93 + " */\n"),
        ("lib/x.c", 'const char *const x =\n\t"' + "a" * 92 + '";\n'),
        ("scripts/x.py", "x = 1  # " + "a" * 92 + "\n"),
        ("scripts/x.mk", "# " + "a" * 99 + "\n"),
        ("scripts/x", "#!/bin/sh\n# " + "a" * 99 + "\n"),
        ("fs/Makefile", "\t\t" + "a" * 85 + "\n"),
    ],
)
def test_format_refuses_wide_lines(tree, name, text):
    write(tree, name, text, spdx=False)
    refuses(tree, "format", " columns", *clang_format())


def test_format_accepts_100_columns(tree):
    write(tree, "lib/x.c", "/*\n *\t" + "a" * 92 + "\n */\n")
    write(tree, "docs/x.md", "a" * 200 + "\n", spdx=False)
    accepts(tree, "format", *clang_format())


# --- signposts


def test_signposts_accept_the_tree(tree):
    accepts(tree, "signposts")


def test_signposts_refuse_a_prototype_under_another_file(tree):
    write(tree, "net/a.c", "void net_a(void)\n{\n}\n")
    write(tree, "net/b.c", "void net_b(void)\n{\n\tnet_a();\n}\nINIT(net_b);\n")
    right = "/* a.c: what it does */\nvoid net_a(void);\n\n/* b.c */\nvoid net_b(void);\n"
    write(tree, "net/p.h", right)
    write(tree, "net/c.c", "INIT(net_b);\n")
    accepts(tree, "signposts")
    write(tree, "net/p.h", "/* a.c */\nvoid net_a(void);\n\nvoid net_b(void);\n")
    refuses(tree, "signposts", "net/p.h:5: net_b() is listed under a.c, but b.c defines it")


def test_signposts_refuse_functions_that_nothing_calls(tree):
    write(tree, "net/a.h", "int net_a(void);\n")
    comment = "/* net_a() in a comment is no call. */\n"
    write(tree, "net/a.c", comment + "int net_a(void)\n{\n\treturn 1;\n}\n")
    refuses(tree, "signposts", "net/a.c:3: nothing calls net_a()")
    write(tree, "net/a_test.c", "int x = net_a();\n")
    refuses(tree, "signposts", "net/a.c:3: only tests call net_a()")
    write(tree, "net/b.c", "#define CALL(x) x##_a()\nint y = CALL(net);\n")
    accepts(tree, "signposts")  # called by a name that is pasted together
    (tree / "net/b.c").unlink()
    write(tree, "net/a.h", "/* For tests. */\nint net_a(void);\n")
    accepts(tree, "signposts")


def test_signposts_refuse_functions_that_should_be_static(tree):
    text = "int net_a(void)\n{\n\treturn 1;\n}\nINIT(net_a);\n"
    write(tree, "net/a.c", text)
    refuses(tree, "signposts", "net_a() is used in this file only")
    write(tree, "net/a_test.c", "int x = net_a();\n")
    accepts(tree, "signposts")
    write(tree, "net/a_test.c", "")
    write(tree, "net/a.c", "static " + text)
    accepts(tree, "signposts")


@pytest.mark.parametrize(
    "name, text",
    [
        ("net/b.c", "const struct ops ops = { .go = net_a };\n"),
        ("net/b.S", "\tcall net_a\n"),
        ("net/b.c", "#define CALL(what) net_##what()\nint x = CALL(a);\n"),
        ("net/n.tbl", "1 net_a\n"),
    ],
)
def test_signposts_see_uses(tree, name, text):
    function = "sys_net_a" if name.endswith(".tbl") else "net_a"
    write(tree, "net/a.c", f"int {function}(void)\n{{\n\treturn 1;\n}}\n")
    refuses(tree, "signposts", f"nothing calls {function}()")
    write(tree, name, text)
    accepts(tree, "signposts")


def test_signposts_refuse_ranks_that_nothing_takes(tree):
    header = "enum lock_rank {\n\tRANK_A = 1, /* RANK_A */\n};\n"
    write(tree, "kernel/include/kernel/lock_rank.h", header)
    refuses(tree, "signposts", "no lock has RANK_A")
    write(tree, "kernel/a.c", "MUTEX(a, RANK_A);\n")
    accepts(tree, "signposts")


def test_signposts_compare_options(tree):
    write(tree, "Kconfig", 'config A\n\tbool "A"\n\thelp\n\t  B is not used here.\n', spdx=False)
    refuses(tree, "signposts", "nothing uses A")
    write(tree, "lib/types.c", "#include <lib/types.h>\nint x = IS_ENABLED(CONFIG_A);\n")
    write(tree, "monitors/memory/vma.h", "")
    accepts(tree, "signposts")
    write(tree, "lib/Makefile", "obj-$(CONFIG_B) += x.o\n", spdx=False)
    refuses(tree, "signposts", "CONFIG_B is in no Kconfig")


# --- assertions


def test_assertions_want_a_held_lock_first(tree):
    body = "static void x_locked(struct x *x)\n{\n\tstruct y *y = y_of(x);\n\tint i;\n\n"
    body += "%s\tdo_it(x);\n%s}\n"
    assertion = "\tassert_spin_held(&x->lock);\n"
    write(tree, "lib/x.c", body % ("", ""))
    refuses(tree, "assertions", "lib/x.c:2: x_locked() does not begin with an assertion")
    write(tree, "lib/x.c", body % ("", assertion))
    refuses(tree, "assertions", "x_locked() does not begin")
    write(tree, "lib/x.c", body % (assertion, ""))
    accepts(tree, "assertions")


def test_assertions_want_enough_of_them(tree):
    write(tree, "net/x.c", "int x;\n" * 990)
    refuses(tree, "assertions", "net: 0.0 assertions per 1,000 lines")
    weak = "ASSERT(x != NULL);\nASSERT(x->y);\nstatic_assert(1);\n/* ASSERT(a == b); */\n"
    weak += "void assert_mutex_held(const struct mutex *m);\n" * 4
    write(tree, "net/x.c", "int x;\n" * 990 + weak)
    refuses(tree, "assertions", "net: 0.0 assertions per 1,000 lines")
    strong = "ASSERT(a == b);\nBUG_ON(a->b > c);\nassert_mutex_held(&m);\n"
    write(tree, "net/x.c", "int x;\n" * 990 + strong * 2)
    accepts(tree, "assertions")


# --- comments


def block(text):
    return "/*\n * One file.\n *\n * Flow:\tin and out.\n" + text + " */\n"


def test_voice_accepts_the_tree(tree):
    other = "/*\n * Other:\tnot at the top.\n */\n"
    write(tree, "lib/x.c", block(" * Limits:\tnone.  See: a book.\n") + other)
    accepts(tree, "voice")


def test_voice_refuses_other_labels(tree):
    write(tree, "lib/x.c", block(" * Truth:\tnone.\n"))
    refuses(tree, "voice", 'lib/x.c: label "Truth:"')


@pytest.mark.parametrize(
    "name, text",
    [
        ("lib/x.c", "/* Who found nothing to evict looks again. */\n"),
        ("lib/x.c", "/*\n * The line is free.  Nobody waits for it.\n */\n"),
        ("lib/x.c", "int x; /* What came of it. */\n"),
        ("scripts/x.py", "# Whoever comes later waits.\n"),
    ],
)
def test_voice_refuses_sentences_without_an_actor(tree, name, text):
    write(tree, name, text, spdx=False)
    refuses(tree, "voice", "a sentence begins with")


def test_voice_lets_questions_be(tree):
    write(
        tree, "lib/x.c", "/* What is free?  The thread that waits asks who holds it. */\nint Who;\n"
    )
    accepts(tree, "voice")


def test_voice_refuses_retired_words(tree):
    write(tree, "monitors/memory/x.c", "int frames_promised;\n")
    refuses(tree, "voice", "x.c:2: \"frames_promised\": say page reservation")
