/* SPDX-License-Identifier: MIT */
/*
 * ACPI tables: CPUs and interrupt controllers from the MADT, the power-off
 * value from FADT and DSDT.
 *
 * Flow:	RSDP -> XSDT or RSDT -> table headers -> copies of the tables we read.
 * Failure:	the firmware's bytes are checked (signature, checksum, bounds, counts); a
 *		bad table is named and left out, and the boot goes on with defaults.
 * Limits:	a table of more than 1 MiB is refused; the first I/O APIC only.
 */
#define PR_FMT "acpi: "

#include <arch/cpu.h>
#include <arch/kpgtable.h>
#include <kernel/boot.h>
#include <kernel/printk.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "arch_private.h"

struct acpi_info acpi_info;

#define SDT_HEADER  36u
#define SDT_MAX     (1u << 20)
#define MADT_FIXED  44u
#define MAX_TABLES  256u
#define RSDP_LEN_V1 20u
#define RSDP_LEN_V2 36u
#define BIOS_START  0xe0000u
#define BIOS_END    0x100000u

#define MADT_LAPIC      0u
#define MADT_IOAPIC     1u
#define MADT_OVERRIDE   2u
#define MADT_LAPIC_ADDR 5u
#define MADT_X2APIC     9u
#define LAPIC_ENABLED   0x1u
#define LAPIC_ALL       0xffu       /* the ids that address all CPUs */
#define X2APIC_ALL      0xffffffffu /* are no CPU's */

static uint8_t sum_bytes(const uint8_t *p, size_t len)
{
	uint8_t sum = 0;

	while (len--)
		sum = (uint8_t)(sum + *p++);
	return sum;
}

/* Physical memory of any kind into @buf: by the direct map, else by a mapping of its own. */
static bool phys_read(paddr_t paddr, void *buf, size_t len)
{
	const void __iomem *p;

	if (paddr == 0 || len > UINT64_MAX - paddr || paddr + len > DIRECT_MAP_SIZE)
		return false;
	p = mmio_map(paddr, len);
	if (!p)
		return false;
	memcpy(buf, (const void __force *)p, len);
	mmio_unmap((void __iomem *)(uintptr_t)p);
	return true;
}

/* A checked copy of the table at @paddr; NULL when it is not sound.  kfree() it. */
static uint8_t *table_read(paddr_t paddr, size_t *len)
{
	uint8_t header[SDT_HEADER];
	uint8_t *t;

	if (!phys_read(paddr, header, sizeof(header)))
		return NULL;
	*len = get_unaligned_le32(header + 4);
	if (*len < SDT_HEADER || *len > SDT_MAX)
		return NULL;
	t = kmalloc(*len);
	if (!t)
		return NULL;
	if (!phys_read(paddr, t, *len) || sum_bytes(t, *len) != 0) {
		pr_warn("table %.4s at %#lx has a bad checksum, ignored\n", (char *)header, paddr);
		kfree(t);
		return NULL;
	}
	return t;
}

/* Not usable now, though it might be plugged in later: not ours.  Named twice: once. */
static void madt_add_cpu(struct acpi_info *out, uint32_t apic_id, uint32_t flags)
{
	if (!(flags & LAPIC_ENABLED))
		return;
	for (unsigned int i = 0; i < MIN(out->nr_cpus, MAX_CPUS); i++) {
		if (out->apic_ids[i] == apic_id)
			return;
	}
	if (out->nr_cpus < MAX_CPUS)
		out->apic_ids[out->nr_cpus] = apic_id;
	out->nr_cpus++;
}

static void madt_entry(const uint8_t *e, unsigned int len, struct acpi_info *out)
{
	if (e[0] == MADT_LAPIC && len >= 8 && e[3] != LAPIC_ALL) {
		madt_add_cpu(out, e[3], get_unaligned_le32(e + 4));
	} else if (e[0] == MADT_X2APIC && len >= 16 && get_unaligned_le32(e + 4) != X2APIC_ALL) {
		madt_add_cpu(out, get_unaligned_le32(e + 4), get_unaligned_le32(e + 8));
	} else if (e[0] == MADT_IOAPIC && len >= 12 && !out->ioapic) {
		out->ioapic = get_unaligned_le32(e + 4);
		out->ioapic_gsi_base = get_unaligned_le32(e + 8);
	} else if (e[0] == MADT_LAPIC_ADDR && len >= 12) {
		out->lapic = get_unaligned_le64(e + 4);
	} else if (e[0] == MADT_OVERRIDE && len >= 10 && e[2] == 0 && e[3] < 16) {
		out->isa[e[3]].gsi = get_unaligned_le32(e + 4);
		out->isa[e[3]].flags = get_unaligned_le16(e + 8);
		out->isa[e[3]].set = true;
	}
}

int acpi_parse_madt(const void *table, size_t len, struct acpi_info *out)
{
	const uint8_t *t = table;
	struct acpi_info info = *out;
	size_t off = MADT_FIXED;

	if (len < MADT_FIXED || memcmp(t, "APIC", 4) != 0)
		return -EINVAL;
	info.lapic = get_unaligned_le32(t + 36);
	while (off < len) {
		const unsigned int elen = len - off >= 2 ? t[off + 1] : 0;

		if (elen < 2 || elen > len - off)
			return -EINVAL;
		madt_entry(t + off, elen, &info);
		off += elen;
	}
	*out = info;
	return 0;
}

/*
 * The \_S5 package in the DSDT's byte code: NameOp? "_S5_" PackageOp length count
 * then two small integers.
 */
int acpi_parse_s5(const void *table, size_t len, struct acpi_info *out)
{
	const uint8_t *t = table;
	uint16_t typ[2];

	for (size_t i = SDT_HEADER; i + 12 <= len; i++) {
		size_t p = i + 4;

		if (memcmp(t + i, "_S5_", 4) != 0 || t[p] != 0x12)
			continue;
		p++;
		p += (t[p] >> 6) + 2u; /* package length, element count */
		for (unsigned int n = 0; n < 2; n++) {
			if (p + 2 > len)
				return -EINVAL;
			if (t[p] == 0x0a)
				p++;
			typ[n] = t[p++];
		}
		out->slp_typ5 = (uint16_t)(typ[0] | typ[1] << 8);
		out->slp_known = true;
		return 0;
	}
	return -ENOENT;
}

static void read_fadt(const uint8_t *t, size_t len)
{
	size_t dsdt_len;
	uint8_t *dsdt;

	if (len < 72)
		return;
	acpi_info.pm1a_cnt = (uint16_t)get_unaligned_le32(t + 64);
	acpi_info.pm1b_cnt = (uint16_t)get_unaligned_le32(t + 68);
	dsdt = table_read(get_unaligned_le32(t + 40), &dsdt_len);
	if (!dsdt)
		return;
	(void)acpi_parse_s5(dsdt, dsdt_len, &acpi_info);
	kfree(dsdt);
}

static void read_table(paddr_t paddr)
{
	uint8_t sig[4];
	size_t len;
	uint8_t *t;

	if (!phys_read(paddr, sig, sizeof(sig)))
		return;
	if (memcmp(sig, "APIC", 4) != 0 && memcmp(sig, "FACP", 4) != 0)
		return;
	t = table_read(paddr, &len);
	if (!t)
		return;
	if (t[0] == 'A') {
		if (acpi_parse_madt(t, len, &acpi_info))
			pr_warn("MADT is malformed, ignored\n");
	} else {
		read_fadt(t, len);
	}
	kfree(t);
}

/* @entry: bytes per pointer, 4 in an RSDT, 8 in an XSDT. */
static void read_root(paddr_t paddr, unsigned int entry)
{
	size_t len;
	uint8_t *t = table_read(paddr, &len);
	size_t n;

	if (!t)
		return;
	n = (len - SDT_HEADER) / entry;
	for (size_t i = 0; i < MIN(n, MAX_TABLES); i++) {
		const uint8_t *p = t + SDT_HEADER + i * entry;

		read_table(entry == 8 ? get_unaligned_le64(p) : get_unaligned_le32(p));
	}
	kfree(t);
}

static bool rsdp_valid(const uint8_t *p)
{
	return memcmp(p, "RSD PTR ", 8) == 0 && sum_bytes(p, RSDP_LEN_V1) == 0;
}

/* The loader's pointer, else the BIOS area in steps of 16. */
static bool rsdp_find(uint8_t *rsdp)
{
	uint8_t *bios;
	bool found = false;

	if (boot_info.rsdp && phys_read(boot_info.rsdp, rsdp, RSDP_LEN_V2) && rsdp_valid(rsdp))
		return true;
	bios = kmalloc(BIOS_END - BIOS_START);
	if (!bios)
		return false;
	if (phys_read(BIOS_START, bios, BIOS_END - BIOS_START)) {
		for (size_t off = 0; !found && off + 64 <= BIOS_END - BIOS_START; off += 16) {
			found = rsdp_valid(bios + off);
			if (found)
				memcpy(rsdp, bios + off, RSDP_LEN_V2);
		}
	}
	kfree(bios);
	return found;
}

void acpi_init(void)
{
	uint8_t rsdp[RSDP_LEN_V2];

	if (!rsdp_find(rsdp)) {
		pr_warn("no RSDP; one CPU and no I/O APIC\n");
	} else if (rsdp[15] >= 2 && get_unaligned_le64(rsdp + 24) &&
		   sum_bytes(rsdp, RSDP_LEN_V2) == 0) {
		read_root(get_unaligned_le64(rsdp + 24), 8);
	} else {
		read_root(get_unaligned_le32(rsdp + 16), 4);
	}
	if (acpi_info.nr_cpus > MAX_CPUS) {
		pr_warn("%u CPUs, using %u\n", acpi_info.nr_cpus, MAX_CPUS);
		acpi_info.nr_cpus = MAX_CPUS;
	}
	cpu_set_possible(MAX(acpi_info.nr_cpus, 1u));
	pr_info("%u CPUs, I/O APIC at %#lx\n", cpu_possible_count(), acpi_info.ioapic);
}
