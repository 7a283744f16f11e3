/* SPDX-License-Identifier: MIT */
#include <kernel/boot.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "arch_private.h"

/* Below 4 GiB by its place in the image, as a loader's tables must be. */
static struct {
	uint32_t magic, version, flags, nr_modules;
	uint64_t modlist, cmdline, rsdp, memmap;
	uint32_t memmap_entries, reserved;
} si;
static struct {
	uint64_t addr, size;
	uint32_t type, reserved;
} map[4];
static char cmdline[5000];
static uint32_t mb2[64];
static struct boot_info out;

#define IMAGE_PHYS(p) ((uint64_t)(uintptr_t)(p) - KERNEL_BASE)

static const char *read_pvh(void)
{
	memset(&out, 0, sizeof(out));
	return boot_info_read(0, IMAGE_PHYS(&si), &out);
}

static void good_pvh(void)
{
	memset(&si, 0, sizeof(si));
	memset(map, 0, sizeof(map));
	strlcpy(cmdline, "node=1 x", sizeof(cmdline));
	si.magic = 0x336ec578;
	si.version = 1;
	si.cmdline = IMAGE_PHYS(cmdline);
	si.rsdp = 0xf0000;
	si.memmap = IMAGE_PHYS(map);
	si.memmap_entries = 2;
	map[0].addr = 0x100000;
	map[0].size = 0x1000000;
	map[0].type = BOOT_MEM_RAM;
	map[1].addr = 0;
	map[1].size = 0x9f000;
	map[1].type = BOOT_MEM_RAM;
}

static void pvh_is_read(struct ktest *t)
{
	good_pvh();
	ASSERT_TRUE(t, read_pvh() == NULL);
	EXPECT_STREQ(t, out.protocol, "PVH");
	EXPECT_STREQ(t, out.cmdline, "node=1 x");
	EXPECT_EQ(t, out.rsdp, 0xf0000);
	ASSERT_EQ(t, out.nr_mem, 2);
	EXPECT_EQ(t, out.mem[0].base, 0); /* sorted */
	EXPECT_EQ(t, out.mem[1].base, 0x100000);
}

static void bad_pvh_is_refused(struct ktest *t)
{
	good_pvh();
	si.magic++;
	EXPECT_STREQ(t, read_pvh(), "PVH start info not found");
	good_pvh();
	si.version = 0;
	EXPECT_STREQ(t, read_pvh(), "PVH start info carries no memory map");
	good_pvh();
	si.memmap = 1ul << 40;
	EXPECT_STREQ(t, read_pvh(), "PVH memory map is out of reach");
	good_pvh();
	si.memmap_entries = UINT32_MAX;
	EXPECT_STREQ(t, read_pvh(), "PVH memory map is out of reach");
	good_pvh();
	si.cmdline = UINT64_MAX;
	EXPECT_STREQ(t, read_pvh(), "PVH command line is out of reach");
	good_pvh();
	memset(cmdline, 'x', sizeof(cmdline));
	EXPECT_STREQ(t, read_pvh(), "command line longer than 4095 bytes");
	good_pvh();
	map[0].type = map[1].type = BOOT_MEM_RESERVED;
	EXPECT_STREQ(t, read_pvh(), "memory map has no RAM");
	good_pvh();
	map[0].size = map[1].size = UINT64_MAX; /* wraps */
	map[1].addr = 8;
	EXPECT_STREQ(t, read_pvh(), "memory map has no RAM");
}

/* No byte is RAM twice, and reserved wins. */
static void overlaps_are_resolved(struct ktest *t)
{
	good_pvh();
	si.memmap_entries = 4;
	map[1].addr = 0x800000;
	map[1].size = 0x1000000;
	map[2].addr = 0x900000;
	map[2].size = 0x1000;
	map[2].type = BOOT_MEM_RESERVED;
	map[3].addr = 0x900800;
	map[3].size = 0x200;
	map[3].type = 77; /* unknown: reserved */
	ASSERT_TRUE(t, read_pvh() == NULL);
	for (unsigned int i = 0; i < out.nr_mem; i++) {
		for (unsigned int k = i + 1; k < out.nr_mem; k++) {
			const struct boot_mem *a = &out.mem[i];
			const struct boot_mem *b = &out.mem[k];

			if ((a->type == BOOT_MEM_RAM || b->type == BOOT_MEM_RAM) && a->size &&
			    b->size)
				EXPECT_TRUE(t, a->base + a->size <= b->base ||
						       b->base + b->size <= a->base);
		}
		if (out.mem[i].type == BOOT_MEM_RAM && out.mem[i].size)
			EXPECT_TRUE(t, out.mem[i].base >= 0x901000 ||
					       out.mem[i].base + out.mem[i].size <= 0x900000);
	}
}

/* A reserved entry over two of RAM leaves nothing of either. */
static void covered_ram_is_dropped(struct ktest *t)
{
	good_pvh();
	si.memmap_entries = 4;
	map[1].addr = 0x80000000;
	map[1].size = 0x10000000;
	map[1].type = BOOT_MEM_RESERVED;
	map[2].addr = 0x81000000;
	map[2].size = 0x1000000;
	map[2].type = BOOT_MEM_RAM;
	map[3].addr = 0x83000000;
	map[3].size = 0x1000000;
	map[3].type = BOOT_MEM_RAM;
	ASSERT_TRUE(t, read_pvh() == NULL);
	for (unsigned int i = 0; i < out.nr_mem; i++) {
		if (out.mem[i].type == BOOT_MEM_RAM && out.mem[i].base != 0x100000)
			EXPECT_EQ(t, out.mem[i].size, 0);
	}
}

static const char *read_mb2(uint32_t total)
{
	memset(&out, 0, sizeof(out));
	mb2[0] = total;
	return boot_info_read(1, IMAGE_PHYS(mb2), &out);
}

static void good_mb2(void)
{
	memset(mb2, 0, sizeof(mb2));
	mb2[2] = 1; /* command line */
	mb2[3] = 8 + 7;
	memcpy(&mb2[4], "node=9", 7);
	mb2[6] = 6; /* memory map */
	mb2[7] = 16 + 24;
	mb2[8] = 24;
	mb2[10] = 0x100000;
	mb2[12] = 0x4000000;
	mb2[14] = BOOT_MEM_RAM;
	mb2[16] = 14; /* old RSDP */
	mb2[17] = 8 + 20;
	memcpy(&mb2[18], "RSD PTR ", 8);
	mb2[25] = 8; /* padding, then the end tag */
	mb2[24] = 0;
}

static void multiboot2_is_read(struct ktest *t)
{
	good_mb2();
	ASSERT_TRUE(t, read_mb2(104) == NULL);
	EXPECT_STREQ(t, out.protocol, "Multiboot2");
	EXPECT_STREQ(t, out.cmdline, "node=9");
	ASSERT_EQ(t, out.nr_mem, 1);
	EXPECT_EQ(t, out.mem[0].base, 0x100000);
	EXPECT_EQ(t, out.mem[0].size, 0x4000000);
	EXPECT_EQ(t, out.rsdp, IMAGE_PHYS(out.rsdp_copy));
	EXPECT_MEMEQ(t, out.rsdp_copy, "RSD PTR ", 8);
}

static void bad_multiboot2_is_refused(struct ktest *t)
{
	good_mb2();
	EXPECT_STREQ(t, read_mb2(8), "Multiboot2 information is out of reach");
	EXPECT_STREQ(t, read_mb2(UINT32_MAX), "Multiboot2 information is out of reach");
	EXPECT_STREQ(t, read_mb2(32), "Multiboot2 tag reaches past the end");
	mb2[3] = 4;
	EXPECT_STREQ(t, read_mb2(104), "Multiboot2 tag reaches past the end");
	good_mb2();
	mb2[8] = 0; /* entry size */
	EXPECT_STREQ(t, read_mb2(104), "memory map has no RAM");
	good_mb2();
	mb2[8] = 0xfffffff0;
	EXPECT_STREQ(t, read_mb2(104), "memory map has no RAM");
	memset(&out, 0, sizeof(out));
	EXPECT_STREQ(t, boot_info_read(1, 1ul << 33, &out),
		     "Multiboot2 information is out of reach");
}

static const struct ktest_case bootinfo_cases[] = {
	KTEST(pvh_is_read),
	KTEST(bad_pvh_is_refused),
	KTEST(overlaps_are_resolved),
	KTEST(covered_ram_is_dropped),
	KTEST(multiboot2_is_read),
	KTEST(bad_multiboot2_is_refused),
	{ 0 },
};
static const struct ktest_suite bootinfo_suite = { .name = "arch.bootinfo",
						   .cases = bootinfo_cases };
KTEST_SUITE(bootinfo_suite);
