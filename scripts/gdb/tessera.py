# SPDX-License-Identifier: MIT
"""gdb commands for a Tessera kernel: `help tessera` lists them.

Loaded by scripts/gdb/connect.sh. They read memory only, so they work on a stopped machine in any
state.
"""

import gdb


def list_entries(head, type_name, member):
    """The structures on a struct list_head."""
    kind = gdb.lookup_type(type_name)
    offset = next(f.bitpos // 8 for f in kind.fields() if f.name == member)
    node = head["next"]
    while node != head.address:
        yield (
            (node.cast(gdb.lookup_type("char").pointer()) - offset)
            .cast(kind.pointer())
            .dereference()
        )
        node = node["next"]


def table(start, end):
    """The pointers of a linker table."""
    pointer = gdb.lookup_type("void").pointer()
    at = int(gdb.parse_and_eval(f"(unsigned long)&{start}"))
    stop = int(gdb.parse_and_eval(f"(unsigned long)&{end}"))
    while at < stop:
        yield gdb.Value(at).cast(pointer.pointer()).dereference()
        at += pointer.sizeof


class Tessera(gdb.Command):
    """Commands for a Tessera kernel."""

    def __init__(self):
        super().__init__("tessera", gdb.COMMAND_DATA, prefix=True)


class Threads(gdb.Command):
    """tessera threads: every thread, with where it sleeps."""

    STATES = {0: "runnable", 1: "sleeping", 2: "dead"}

    def __init__(self):
        super().__init__("tessera threads", gdb.COMMAND_DATA)

    def invoke(self, _arg, _tty):
        for t in list_entries(gdb.parse_and_eval("all_threads"), "struct thread", "all_link"):
            state = self.STATES.get(int(t["state"]), "?")
            print(f"{int(t['tid']):5} {state:9} {t['name'].string():24} {t.address}")


class Counters(gdb.Command):
    """tessera counters [PREFIX]: counters of the boot CPU."""

    def __init__(self):
        super().__init__("tessera counters", gdb.COMMAND_DATA)

    def invoke(self, arg, _tty):
        kind = gdb.lookup_type("struct counter").pointer()
        for p in table("counters_start", "counters_end"):
            c = p.cast(kind).dereference()
            name = c["name"].string()
            if name.startswith(arg):
                print(f"{int(c['percpu'].dereference()):12} {name}")


class Params(gdb.Command):
    """tessera params: boot parameters and their values."""

    FIELDS = {0: "b", 1: "u32", 2: "u64", 3: "u64", 4: "str"}

    def __init__(self):
        super().__init__("tessera params", gdb.COMMAND_DATA)

    def invoke(self, _arg, _tty):
        kind = gdb.lookup_type("struct boot_param").pointer()
        for p in table("bootparams_start", "bootparams_end"):
            b = p.cast(kind).dereference()
            field = self.FIELDS.get(int(b["type"]))
            value = b["var"][field].dereference() if field else "(callback)"
            print(f"{b['name'].string():28} {value}")


Tessera()
Threads()
Counters()
Params()
