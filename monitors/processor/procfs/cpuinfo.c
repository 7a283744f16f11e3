/* SPDX-License-Identifier: MIT */
/*
 * /proc/cpuinfo: what CPUID says, with Linux's names for features.
 *
 * All CPUs of a node are alike. Features that need the kernel's help (AVX and up) are named when
 * XCR0 has switched them on.
 */
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/tsc.h>
#include <lib/string.h>

#include "proc_private.h"
#include "system_private.h"

/* One name a bit; a NULL is not told. */
static const char *const leaf1_edx[32] = {
	"fpu",  "vme",  "de",   "pse", "tsc",  "msr", "pae",   "mce", "cx8",     "apic", NULL,
	"sep",  "mtrr", "pge",  "mca", "cmov", "pat", "pse36", "pn",  "clflush", NULL,   "dts",
	"acpi", "mmx",  "fxsr", "sse", "sse2", "ss",  "ht",    "tm",  "ia64",    "pbe",
};
static const char *const leaf1_ecx[32] = {
	"pni",    "pclmulqdq",  "dtes64", "monitor", "ds_cpl",
	"vmx",    "smx",        "est",    "tm2",     "ssse3",
	"cid",    "sdbg",       "fma",    "cx16",    "xtpr",
	"pdcm",   NULL,         "pcid",   "dca",     "sse4_1",
	"sse4_2", "x2apic",     "movbe",  "popcnt",  "tsc_deadline_timer",
	"aes",    "xsave",      NULL,     "avx",     "f16c",
	"rdrand", "hypervisor",
};
static const char *const ext_edx[32] = {
	[11] = "syscall", [19] = "mp",     [20] = "nx", [22] = "mmxext",   [25] = "fxsr_opt",
	[26] = "pdpe1gb", [27] = "rdtscp", [29] = "lm", [30] = "3dnowext", [31] = "3dnow",
};
static const char *const ext_ecx[32] = {
	"lahf_lm", "cmp_legacy", "svm",         "extapic",       "cr8_legacy",
	"abm",     "sse4a",      "misalignsse", "3dnowprefetch", "osvw",
	"ibs",     "xop",        "skinit",      "wdt",           NULL,
	"lwp",     "fma4",       "tce",         [21] = "tbm",    [22] = "topoext",
};
static const char *const leaf7_ebx[32] = {
	"fsgsbase",
	"tsc_adjust",
	NULL,
	"bmi1",
	"hle",
	"avx2",
	NULL,
	"smep",
	"bmi2",
	"erms",
	"invpcid",
	"rtm",
	[14] = "mpx",
	[16] = "avx512f",
	[17] = "avx512dq",
	[18] = "rdseed",
	[19] = "adx",
	[20] = "smap",
	[21] = "avx512ifma",
	[23] = "clflushopt",
	[24] = "clwb",
	[28] = "avx512cd",
	[29] = "sha_ni",
	[30] = "avx512bw",
	[31] = "avx512vl",
};
static const char *const leaf7_ecx[32] = {
	[1] = "avx512vbmi",        [2] = "umip",         [3] = "pku",
	[6] = "avx512_vbmi2",      [8] = "gfni",         [9] = "vaes",
	[10] = "vpclmulqdq",       [11] = "avx512_vnni", [12] = "avx512_bitalg",
	[14] = "avx512_vpopcntdq", [16] = "la57",        [22] = "rdpid",
};
static const char *const leaf_xsave[32] = { "xsaveopt", "xsavec", "xgetbv1", "xsaves" };

/* Names of the bits of @reg that are set; those of AVX only when @xcr0 has its state. */
static void flags(struct text *t, uint32_t reg, const char *const names[32], uint64_t xcr0)
{
	for (int bit = 0; bit < 32; bit++) {
		const char *name = names[bit];

		if (!(reg & BIT(bit)) || !name)
			continue;
		if (strncmp(name, "avx512", 6) == 0
			    ? (xcr0 & 0xe6) != 0xe6
			    : (strncmp(name, "avx", 3) == 0 || strcmp(name, "fma") == 0 ||
			       strcmp(name, "f16c") == 0 || name[0] == 'v') &&
				      strcmp(name, "vmx") != 0 && strcmp(name, "vme") != 0 &&
				      (xcr0 & 6) != 6)
			continue;
		text_printf(t, " %s", name);
	}
}

static void all_flags(struct text *t)
{
	const uint32_t max = cpuid(0, 0).eax;
	const uint64_t xcr0 = fpu_xfeatures();
	struct cpuid_regs r = cpuid(1, 0);

	flags(t, r.edx, leaf1_edx, xcr0);
	flags(t, r.ecx, leaf1_ecx, xcr0);
	r = cpuid(0x80000001u, 0);
	flags(t, r.edx, ext_edx, xcr0);
	flags(t, r.ecx, ext_ecx, xcr0);
	if (max >= 7) {
		r = cpuid(7, 0);
		flags(t, r.ebx, leaf7_ebx, xcr0);
		flags(t, r.ecx, leaf7_ecx, xcr0);
	}
	if (max >= 0xd && cpu_features.xsave)
		flags(t, cpuid(0xd, 1).eax, leaf_xsave, xcr0);
	text_puts(t, " constant_tsc rep_good nopl");
	if (cpu_features.tsc_invariant)
		text_puts(t, " nonstop_tsc");
}

static void one(struct text *t, unsigned int cpu)
{
	const unsigned int cpus = cpu_online_count();
	const struct cpuid_regs r = cpuid(1, 0);
	const uint64_t khz = tsc_scale.khz;
	struct system_cache c, last = { 0 };
	uint32_t family = r.eax >> 8 & 15, model = r.eax >> 4 & 15;

	if (family == 6 || family == 15)
		model |= (r.eax >> 16 & 15) << 4;
	if (family == 15)
		family += r.eax >> 20 & 255;
	for (unsigned int i = 0; system_cache(i, &c); i++)
		last = c;
	text_printf(t, "processor\t: %u\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\n", cpu,
		    cpu_features.vendor, family, model);
	text_printf(t, "model name\t: %s\nstepping\t: %u\nmicrocode\t: 0x0\n",
		    cpu_features.brand[0] ? cpu_features.brand : "unknown", r.eax & 15);
	text_printf(t, "cpu MHz\t\t: %llu.%03llu\n", (unsigned long long)(khz / 1000),
		    (unsigned long long)(khz % 1000));
	if (last.size)
		text_printf(t, "cache size\t: %llu KB\n", (unsigned long long)(last.size >> 10));
	text_printf(t,
		    "physical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: %u\n"
		    "apicid\t\t: %u\ninitial apicid\t: %u\n",
		    cpus, cpu, cpus, cpu, cpu);
	text_printf(
		t, "fpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: %u\nwp\t\t: yes\nflags\t\t:",
		cpuid(0, 0).eax);
	all_flags(t);
	text_printf(t, "\nbugs\t\t:\nbogomips\t: %llu.%02llu\n", (unsigned long long)(khz / 500),
		    (unsigned long long)(khz / 5 % 100));
	text_printf(t, "clflush size\t: %u\ncache_alignment\t: %u\n", (r.ebx >> 8 & 255) * 8,
		    (r.ebx >> 8 & 255) * 8);
	text_printf(t, "address sizes\t: %u bits physical, 48 bits virtual\npower management:\n\n",
		    cpu_features.phys_bits);
}

SHOW(show_cpuinfo)
{
	for_each_cpu(cpu)
		one(t, cpu);
	return 0;
}
