/* SPDX-License-Identifier: MIT */
/* Files of /proc that are about the system as a whole. */
#pragma once

#include "pseudo_private.h"

SHOW(show_cgroups);
SHOW(show_cmdline);
SHOW(show_cpuinfo);
SHOW(show_devices);
SHOW(show_filesystems);
SHOW(show_interrupts);
SHOW(show_loadavg);
SHOW(show_meminfo);
SHOW(show_partitions);
SHOW(show_stat);
SHOW(show_swaps);
SHOW(show_uptime);
SHOW(show_version);
SHOW(show_vmstat);

extern const struct pseudo_node proc_sys_nodes[];
