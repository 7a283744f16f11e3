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

static const void *boot_ptr(paddr_t paddr, uint64_t len)
{
	if (paddr == 0 || paddr >= BOOT_MAP_LIMIT || len > BOOT_MAP_LIMIT - paddr)
		return NULL;
	return phys_to_virt(paddr);
}

/* Insert sorted by base; an entry that cannot be stored is dropped with a line. */
static void mem_add(struct boot_info *bi, uint64_t base, uint64_t size, uint32_t type)
{
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

/* Cut @ram down to what lies outside @other. */
static void mem_cut(struct boot_mem *ram, const struct boot_mem *other)
{
	const uint64_t end = ram->base + ram->size;
	const uint64_t other_end = other->base + other->size;

	if (other->base >= end || other_end <= ram->base || ram->size == 0 || other->size == 0)
		return;
	pr_warn("boot: memory map entries overlap at %#lx\n", MAX(ram->base, other->base));
	if (other->base > ram->base) {
		ram->size = other->base - ram->base; /* what may follow behind it is given up */
	} else {
		ram->base = MIN(other_end, end);
		ram->size = end - ram->base;
	}
}

/* Never hand out a byte twice, nor one that some other entry calls reserved. */
static void mem_resolve_overlaps(struct boot_info *bi)
{
	for (unsigned int i = 0; i < bi->nr_mem; i++) {
		if (bi->mem[i].type != BOOT_MEM_RAM)
			continue;
		for (unsigned int k = 0; k < bi->nr_mem; k++) {
			if (k != i && (k < i || bi->mem[k].type != BOOT_MEM_RAM))
				mem_cut(&bi->mem[i], &bi->mem[k]);
		}
	}
}

static const char *set_cmdline(struct boot_info *bi, const char *s, size_t max)
{
	const size_t len = strnlen(s, MIN(max, sizeof(bi->cmdline)));

	if (len == sizeof(bi->cmdline))
		return "command line longer than 4095 bytes";
	memcpy(bi->cmdline, s, len);
	bi->cmdline[len] = '\0';
	return NULL;
}

static const char *parse_pvh(struct boot_info *bi, paddr_t info)
{
	const struct pvh_start_info *si = boot_ptr(info, sizeof(*si));
	const struct pvh_memmap_entry *map;
	const char *cmd;

	bi->protocol = "PVH";
	if (!si || si->magic != PVH_MAGIC)
		return "PVH start info not found";
	if (si->version < 1 || si->memmap_entries == 0)
		return "PVH start info carries no memory map";
	map = boot_ptr(si->memmap_paddr, (uint64_t)si->memmap_entries * sizeof(*map));
	if (!map)
		return "PVH memory map is out of reach";
	for (uint32_t i = 0; i < si->memmap_entries; i++)
		mem_add(bi, map[i].addr, map[i].size, map[i].type);
	bi->rsdp = si->rsdp_paddr;
	if (!si->cmdline_paddr)
		return NULL;
	cmd = boot_ptr(si->cmdline_paddr, 1);
	if (!cmd)
		return "PVH command line is out of reach";
	return set_cmdline(bi, cmd, BOOT_MAP_LIMIT - si->cmdline_paddr);
}

static void parse_mb2_mmap(struct boot_info *bi, const uint8_t *tag, uint32_t size)
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
		mem_add(bi, e.addr, e.size, e.type);
	}
}

/* Multiboot2 hands over a copy of the RSDP in memory that is ours to reuse: keep our own. */
static void set_rsdp(struct boot_info *bi, const uint8_t *rsdp, size_t len)
{
	memset(bi->rsdp_copy, 0, sizeof(bi->rsdp_copy));
	memcpy(bi->rsdp_copy, rsdp, MIN(len, sizeof(bi->rsdp_copy)));
	bi->rsdp = virt_to_phys(bi->rsdp_copy);
}

static const char *parse_mb2_tag(struct boot_info *bi, const uint8_t *p, const struct mb2_tag *tag)
{
	const uint8_t *body = p + sizeof(*tag);
	const size_t len = tag->size - sizeof(*tag);

	switch (tag->type) {
	case MB2_TAG_CMDLINE:
		return set_cmdline(bi, (const char *)body, len);
	case MB2_TAG_MMAP:
		parse_mb2_mmap(bi, p, tag->size);
		return NULL;
	case MB2_TAG_ACPI_OLD:
		if (!bi->rsdp)
			set_rsdp(bi, body, len);
		return NULL;
	case MB2_TAG_ACPI_NEW:
		set_rsdp(bi, body, len);
		return NULL;
	default:
		return NULL;
	}
}

static const char *parse_mb2(struct boot_info *bi, paddr_t info)
{
	const uint32_t *total = boot_ptr(info, 8);
	const uint8_t *base = (const uint8_t *)total;
	uint64_t off = 8;

	bi->protocol = "Multiboot2";
	if (!total || *total < 16 || !boot_ptr(info, *total))
		return "Multiboot2 information is out of reach";
	while (off + sizeof(struct mb2_tag) <= *total) {
		struct mb2_tag tag;
		const char *why;

		memcpy(&tag, base + off, sizeof(tag));
		if (tag.type == MB2_TAG_END)
			break;
		if (tag.size < sizeof(tag) || tag.size > *total - off)
			return "Multiboot2 tag reaches past the end";
		why = parse_mb2_tag(bi, base + off, &tag);
		if (why)
			return why;
		off += ALIGN_UP((uint64_t)tag.size, 8);
	}
	return NULL;
}

const char *boot_info_read(uint32_t protocol, paddr_t info, struct boot_info *bi)
{
	const char *why = protocol == 0 ? parse_pvh(bi, info) : parse_mb2(bi, info);

	if (why)
		return why;
	mem_resolve_overlaps(bi);
	for (unsigned int i = 0; i < bi->nr_mem; i++) {
		if (bi->mem[i].type == BOOT_MEM_RAM && bi->mem[i].size >= PAGE_SIZE)
			return NULL;
	}
	return "memory map has no RAM";
}

void boot_info_parse(uint32_t protocol, paddr_t info)
{
	const char *why = boot_info_read(protocol, info, &boot_info);

	if (why) {
		pr_err("boot: %s\n", why);
		machine_poweroff(EXIT_STATUS_BOOT);
	}
}
