/* SPDX-License-Identifier: MIT */
/*
 * Boot loader information: PVH start info and Multiboot2 tags into boot_info.
 *
 * Context:	once, on the boot page tables (first 4 GiB at DIRECT_MAP_BASE).
 * Failure:	the loader's tables are checked like any outside bytes: counts are
 *		bounded, addresses must lie below 4 GiB; without one RAM region the boot
 *		stops with a line.
 */
#include <kernel/boot.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <lib/string.h>
#include <mm/kmap.h>

#include "arch_private.h"

struct boot_info boot_info;
static char cmdline_copy[4096];
static uint8_t rsdp_copy[36] __aligned(16);

#define BOOT_MAP_LIMIT 0x100000000ull /* what the boot page tables reach */

struct pvh_start_info {
	uint32_t magic; /* 0x336ec578 */
	uint32_t version;
	uint32_t flags;
	uint32_t nr_modules;
	uint64_t modlist_paddr;
	uint64_t cmdline_paddr;
	uint64_t rsdp_paddr;
	uint64_t memmap_paddr; /* version 1 and later */
	uint32_t memmap_entries;
	uint32_t reserved;
};
static_assert(sizeof(struct pvh_start_info) == 56, "PVH start info is ABI");
static_assert(offsetof(struct pvh_start_info, rsdp_paddr) == 32, "PVH start info is ABI");

struct pvh_memmap_entry {
	uint64_t addr;
	uint64_t size;
	uint32_t type;
	uint32_t reserved;
};
static_assert(sizeof(struct pvh_memmap_entry) == 24, "PVH memory map is ABI");

#define PVH_MAGIC 0x336ec578u

struct mb2_tag {
	uint32_t type;
	uint32_t size;
};
#define MB2_TAG_END      0u
#define MB2_TAG_CMDLINE  1u
#define MB2_TAG_MMAP     6u
#define MB2_TAG_ACPI_OLD 14u
#define MB2_TAG_ACPI_NEW 15u

static void __noreturn boot_stop(const char *why)
{
	pr_err("boot: %s\n", why);
	machine_poweroff(EXIT_STATUS_BOOT);
}

static const void *boot_ptr(paddr_t paddr, uint64_t len)
{
	if (paddr == 0 || paddr >= BOOT_MAP_LIMIT || len > BOOT_MAP_LIMIT - paddr)
		return NULL;
	return phys_to_virt(paddr);
}

/* Insert sorted by base; an entry that cannot be stored is dropped with a line. */
static void mem_add(uint64_t base, uint64_t size, uint32_t type)
{
	struct boot_info *bi = &boot_info;
	unsigned int i;

	if (size == 0 || base > UINT64_MAX - size)
		return;
	if (type == 0 || type > BOOT_MEM_BAD)
		type = BOOT_MEM_RESERVED;
	if (bi->nr_mem == BOOT_MEM_MAX) {
		pr_warn("boot: memory map has more than %u entries, rest ignored\n", BOOT_MEM_MAX);
		return;
	}
	for (i = bi->nr_mem; i > 0 && bi->mem[i - 1].base > base; i--)
		bi->mem[i] = bi->mem[i - 1];
	bi->mem[i] = (struct boot_mem){ .base = base, .size = size, .type = type };
	bi->nr_mem++;
}

/* RAM that overlaps a later or reserved entry is cut short: never hand out a byte twice. */
static void mem_resolve_overlaps(void)
{
	struct boot_info *bi = &boot_info;

	for (unsigned int i = 0; i + 1 < bi->nr_mem; i++) {
		struct boot_mem *a = &bi->mem[i];
		struct boot_mem *b = &bi->mem[i + 1];
		const uint64_t a_end = a->base + a->size;
		const uint64_t b_end = b->base + b->size;

		if (a_end <= b->base)
			continue;
		pr_warn("boot: memory map entries overlap at %#lx\n", b->base);
		if (a->type == BOOT_MEM_RAM) {
			a->size = b->base - a->base;
		} else if (a_end >= b_end) {
			b->size = 0;
			b->base = a_end;
		} else {
			b->size = b_end - a_end;
			b->base = a_end;
		}
	}
}

static void set_cmdline(const char *s, size_t max)
{
	const size_t len = strnlen(s, max);

	if (len >= sizeof(cmdline_copy))
		boot_stop("command line longer than 4095 bytes");
	memcpy(cmdline_copy, s, len);
	cmdline_copy[len] = '\0';
}

static void parse_pvh(paddr_t info)
{
	const struct pvh_start_info *si = boot_ptr(info, sizeof(*si));
	const struct pvh_memmap_entry *map;
	const char *cmd;

	if (!si || si->magic != PVH_MAGIC)
		boot_stop("PVH start info not found");
	if (si->version < 1 || si->memmap_entries == 0)
		boot_stop("PVH start info carries no memory map");
	map = boot_ptr(si->memmap_paddr, (uint64_t)si->memmap_entries * sizeof(*map));
	if (!map)
		boot_stop("PVH memory map is out of reach");
	for (uint32_t i = 0; i < si->memmap_entries; i++)
		mem_add(map[i].addr, map[i].size, map[i].type);
	if (si->cmdline_paddr) {
		cmd = boot_ptr(si->cmdline_paddr, 1);
		if (!cmd)
			boot_stop("PVH command line is out of reach");
		set_cmdline(cmd, BOOT_MAP_LIMIT - si->cmdline_paddr);
	}
	boot_info.rsdp = si->rsdp_paddr;
}

static void parse_mb2_mmap(const uint8_t *tag, uint32_t size)
{
	struct {
		uint32_t entry_size, entry_version;
	} h;

	if (size < 16)
		return;
	memcpy(&h, tag + 8, sizeof(h));
	if (h.entry_size < 24)
		return;
	for (uint32_t off = 16; off + 24 <= size && h.entry_size <= size - off;
	     off += h.entry_size) {
		struct pvh_memmap_entry e; /* the same layout */

		memcpy(&e, tag + off, sizeof(e));
		mem_add(e.addr, e.size, e.type);
	}
}

/* Multiboot2 hands over a copy of the RSDP in memory that is ours to reuse: keep our own. */
static void set_rsdp(const uint8_t *rsdp, size_t len)
{
	memset(rsdp_copy, 0, sizeof(rsdp_copy));
	memcpy(rsdp_copy, rsdp, MIN(len, sizeof(rsdp_copy)));
	boot_info.rsdp = virt_to_phys(rsdp_copy);
}

static void parse_mb2(paddr_t info)
{
	const uint32_t *total = boot_ptr(info, 8);
	const uint8_t *base;
	uint64_t off = 8;

	if (!total || *total < 16 || !boot_ptr(info, *total))
		boot_stop("Multiboot2 information is out of reach");
	base = (const uint8_t *)total;
	while (off + sizeof(struct mb2_tag) <= *total) {
		struct mb2_tag tag;

		memcpy(&tag, base + off, sizeof(tag));
		if (tag.type == MB2_TAG_END || tag.size < sizeof(tag) || tag.size > *total - off)
			break;
		if (tag.type == MB2_TAG_CMDLINE)
			set_cmdline((const char *)base + off + 8, tag.size - 8);
		else if (tag.type == MB2_TAG_MMAP)
			parse_mb2_mmap(base + off, tag.size);
		else if (tag.type == MB2_TAG_ACPI_NEW ||
			 (tag.type == MB2_TAG_ACPI_OLD && !boot_info.rsdp))
			set_rsdp(base + off + 8, tag.size - 8);
		off += ALIGN_UP((uint64_t)tag.size, 8);
	}
}

void boot_info_parse(uint32_t protocol, paddr_t info)
{
	struct boot_info *bi = &boot_info;
	bool ram = false;

	bi->cmdline = cmdline_copy;
	if (protocol == 0) {
		bi->protocol = "PVH";
		parse_pvh(info);
	} else {
		bi->protocol = "Multiboot2";
		parse_mb2(info);
	}
	mem_resolve_overlaps();
	for (unsigned int i = 0; i < bi->nr_mem; i++)
		ram |= bi->mem[i].type == BOOT_MEM_RAM && bi->mem[i].size >= PAGE_SIZE;
	if (!ram)
		boot_stop("memory map has no RAM");
}
