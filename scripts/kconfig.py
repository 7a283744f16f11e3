#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Read Kconfig and write configurations, through kconfiglib.

usage: kconfig.py defconfig FILE             write $KCONFIG_CONFIG from FILE
       kconfig.py olddefconfig               fill $KCONFIG_CONFIG up with defaults
       kconfig.py savedefconfig FILE         write the shortest FILE with the same meaning
       kconfig.py menuconfig                 edit $KCONFIG_CONFIG
       kconfig.py generate HEADER CONF [SYMBOL=VALUE...] [--shared HEADER]
                                             autoconf.h and auto.conf, with overrides; and the
                                             header for what all roles share, where options whose
                                             value depends on the role may not be named
       kconfig.py generate HEADER CONF --all the same with every feature on (for host tests)

A value in a defconfig that Kconfig does not take (unknown symbol, out of range, unmet dependency)
is an error. A .config may be older than the Kconfig files: what is gone is dropped, what is new
gets its default.
"""

import os
import pathlib
import sys

import kconfiglib


def load(path, strict=False):
    """The configuration in @path; if strict, refuse anything that would be dropped."""
    kconf = kconfiglib.Kconfig(
        os.path.join(os.environ["srctree"], "Kconfig"), suppress_traceback=True
    )
    kconf.warn_assign_undef = True
    kconf.warn_assign_override = True
    kconf.warn_to_stderr = False
    kconf.load_config(path)
    if strict:
        check(kconf, path)
    return kconf


def check(kconf, origin):
    if kconf.warnings:
        sys.exit(f"{origin}: " + "\n".join(kconf.warnings))
    for sym in kconf.unique_defined_syms:
        wanted = sym.user_value
        if wanted is None or sym.choice:
            continue
        if isinstance(wanted, int):
            wanted = kconfiglib.TRI_TO_STR[wanted]
        if wanted != sym.str_value:
            sys.exit(
                f"{origin}: CONFIG_{sym.name}={wanted} is not possible here "
                f"(it would be {sym.str_value}): check its dependencies and range"
            )


def of_role(kconf):
    """Names of the options whose value follows from the choice of a role, directly or through
    others.
    """
    depends = {s.name for s in kconf.unique_defined_syms if s.choice and s.name.startswith("ROLE_")}
    found = depends
    while found:
        found = set()
        for sym in kconf.unique_defined_syms:
            conditions = [sym.direct_dep, sym.rev_dep, sym.weak_rev_dep]
            conditions += [e for part in (*sym.defaults, *sym.ranges) for e in part]
            conditions += [node.prompt[1] for node in sym.nodes if node.prompt]
            named = {item.name for e in conditions for item in kconfiglib.expr_items(e)}
            if sym.name not in depends and named & depends:
                found.add(sym.name)
        depends |= found
    return depends


def write_shared(kconf, autoconf, path):
    """The same as autoconf.h, but that naming an option of the role is an error of the compiler."""
    roles = {f"CONFIG_{name}" for name in of_role(kconf)}
    lines = [
        line
        for line in pathlib.Path(autoconf).read_text().splitlines()
        if roles.isdisjoint(line.split()[1:2])
    ]
    lines.append(f"#pragma GCC poison {' '.join(sorted(roles))}")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def main(argv):
    command, args = argv[0], argv[1:]
    config = os.environ["KCONFIG_CONFIG"]
    pathlib.Path(config).parent.mkdir(parents=True, exist_ok=True)

    if command == "menuconfig":
        import menuconfig

        menuconfig.menuconfig(
            kconfiglib.Kconfig(os.path.join(os.environ["srctree"], "Kconfig"))
        )
    elif command == "defconfig":
        load(args[0], strict=True).write_config(config)
        os.utime(config)
    elif command == "olddefconfig":
        load(config).write_config(config)
    elif command == "savedefconfig":
        load(config).write_min_config(args[0], header="")
    elif command == "generate":
        kconf = load(config)
        if args[2:] == ["--all"]:
            features = (s for s in kconf.unique_defined_syms if not s.choice and s.name != "UBSAN")
            for sym in features:
                if sym.orig_type == kconfiglib.BOOL and any(n.prompt for n in sym.nodes):
                    sym.set_value("y")
            args = args[:2]
        shared = None
        if "--shared" in args:
            at = args.index("--shared")
            shared = args[at + 1]
            args[at : at + 2] = []
        for override in args[2:]:
            name, _, value = override.partition("=")
            sym = kconf.syms.get(name)
            if sym is None or not sym.set_value(value):
                sys.exit(f"kconfig: cannot set {override}")
        check(kconf, "overrides")
        kconf.write_autoconf(args[0], header="/* Generated from Kconfig. */\n#pragma once\n")
        if shared:
            write_shared(kconf, args[0], shared)
        kconf.write_config(args[1], header="# Generated from Kconfig.\n", save_old=False)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
