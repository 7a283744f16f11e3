/* SPDX-License-Identifier: MIT */
/* Facts about the machine: Linux's <linux/utsname.h>, <linux/sysinfo.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

struct linux_new_utsname {
	char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};

struct linux_sysinfo {
	int64_t uptime;
	uint64_t loads[3], totalram, freeram, sharedram, bufferram, totalswap, freeswap;
	uint16_t procs, pad;
	uint32_t pad2;
	uint64_t totalhigh, freehigh;
	uint32_t mem_unit;
	uint32_t pad3;
};
static_assert(sizeof(struct linux_sysinfo) == 112, "struct sysinfo is ABI");
