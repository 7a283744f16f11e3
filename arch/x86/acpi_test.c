/* SPDX-License-Identifier: MIT */
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "arch_private.h"

static struct acpi_info info;

/* Header, then: CPU 0 on, CPU 1 off, x2APIC CPU 300 on, I/O APIC, override 0 -> 2. */
static const uint8_t madt[] = {
	'A', 'P', 'I',  'C',  0,    0, 0, 0, 1, 0,  0, 0, 0, 0, 0, 0, 0,    0,    0,    0,
	0,   0,   0,    0,    0,    0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0x00, 0x00, 0xe0, 0xfe,
	0,   0,   0,    0,    0,    8, 0, 5, 1, 0,  0, 0, 0, 8, 1, 6, 0,    0,    0,    0,
	9,   16,  0,    0,    0x2c, 1, 0, 0, 1, 0,  0, 0, 7, 0, 0, 0, 1,    12,   0,    0,
	0,   0,   0xc0, 0xfe, 24,   0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 13,   0,
};

static void madt_is_read(struct ktest *t)
{
	memset(&info, 0, sizeof(info));
	ASSERT_EQ(t, acpi_parse_madt(madt, sizeof(madt), &info), 0);
	EXPECT_EQ(t, info.lapic, 0xfee00000ul);
	EXPECT_EQ(t, info.nr_cpus, 2);
	EXPECT_EQ(t, info.apic_ids[0], 5);
	EXPECT_EQ(t, info.apic_ids[1], 300);
	EXPECT_EQ(t, info.ioapic, 0xfec00000ul);
	EXPECT_EQ(t, info.ioapic_gsi_base, 24);
	EXPECT_TRUE(t, info.isa[0].set);
	EXPECT_EQ(t, info.isa[0].gsi, 2);
	EXPECT_EQ(t, info.isa[0].flags, 13);
	EXPECT_FALSE(t, info.isa[1].set);
}

/* Cut anywhere inside an entry, or with a length of 0 or 1: refused, nothing changed. */
static void bad_madt_is_refused(struct ktest *t)
{
	static uint8_t bad[sizeof(madt)];
	static const size_t ends[] = { 44, 52, 60, 76, 88, 98 };
	size_t next = 0;

	for (size_t len = 0; len <= sizeof(madt); len++) {
		memset(&info, 0, sizeof(info));
		if (len == ends[next]) {
			EXPECT_EQ(t, acpi_parse_madt(madt, len, &info), 0);
			next++;
			continue;
		}
		EXPECT_EQ(t, acpi_parse_madt(madt, len, &info), -EINVAL);
		EXPECT_EQ(t, info.nr_cpus, 0);
	}
	for (uint8_t elen = 0; elen < 2; elen++) {
		memcpy(bad, madt, sizeof(bad));
		bad[45] = elen;
		EXPECT_EQ(t, acpi_parse_madt(bad, sizeof(bad), &info), -EINVAL);
	}
	memcpy(bad, madt, sizeof(bad));
	bad[0] = 'X';
	EXPECT_EQ(t, acpi_parse_madt(bad, sizeof(bad), &info), -EINVAL);
}

/* Short entries of known types must not be read past their end. */
static void short_entries_are_skipped(struct ktest *t)
{
	uint8_t table[44 + 12];

	memset(table, 0, sizeof(table));
	memcpy(table, "APIC", 4);
	for (uint8_t type = 0; type < 12; type++) {
		memset(&info, 0, sizeof(info));
		for (unsigned int i = 0; i < 3; i++) {
			table[44 + 4 * i] = type;
			table[45 + 4 * i] = 4;
			table[47 + 4 * i] = 1;
		}
		EXPECT_EQ(t, acpi_parse_madt(table, sizeof(table), &info), 0);
		EXPECT_EQ(t, info.nr_cpus, 0);
		EXPECT_EQ(t, info.ioapic, 0);
	}
}

static uint8_t many[44 + 300 * 16];

static size_t put_cpu(size_t at, bool x2apic, uint32_t id, uint8_t flags)
{
	memset(many + at, 0, 16);
	many[at] = x2apic ? 9 : 0;
	many[at + 1] = x2apic ? 16 : 8;
	if (x2apic) {
		put_unaligned_le32(id, many + at + 4);
		many[at + 8] = flags;
	} else {
		many[at + 3] = (uint8_t)id;
		many[at + 4] = flags;
	}
	return at + many[at + 1];
}

/* Enabled ones count, each once; those that may be plugged in later and broadcast ids do not. */
static void hostile_cpu_lists(struct ktest *t)
{
	size_t at = 44;

	memset(many, 0, sizeof(many));
	memcpy(many, "APIC", 4);
	at = put_cpu(at, false, 3, 1);
	at = put_cpu(at, false, 3, 1);
	at = put_cpu(at, true, 3, 1);
	at = put_cpu(at, false, 4, 2);    /* online-capable only */
	at = put_cpu(at, false, 5, 3);    /* enabled counts */
	at = put_cpu(at, false, 6, 0xfc); /* reserved bits */
	at = put_cpu(at, false, 0xff, 1);
	at = put_cpu(at, true, 0xffffffff, 1);
	at = put_cpu(at, true, 0xfffffffe, 1);
	memset(&info, 0, sizeof(info));
	ASSERT_EQ(t, acpi_parse_madt(many, at, &info), 0);
	EXPECT_EQ(t, info.nr_cpus, 3);
	EXPECT_EQ(t, info.apic_ids[0], 3);
	EXPECT_EQ(t, info.apic_ids[1], 5);
	EXPECT_EQ(t, info.apic_ids[2], 0xfffffffe);
}

/* More than we have room for: counted, not stored. */
static void too_many_cpus(struct ktest *t)
{
	size_t at = 44;

	memset(many, 0, sizeof(many));
	memcpy(many, "APIC", 4);
	for (uint32_t i = 0; i < 300; i++)
		at = put_cpu(at, true, 1000 + i, 1);
	memset(&info, 0, sizeof(info));
	ASSERT_EQ(t, acpi_parse_madt(many, at, &info), 0);
	EXPECT_EQ(t, info.nr_cpus, 300);
	EXPECT_EQ(t, info.apic_ids[MAX_CPUS - 1], 1000 + MAX_CPUS - 1);
	EXPECT_EQ(t, info.isa[0].gsi, 0); /* what lies behind the array */
}

static void s5_value(struct ktest *t)
{
	uint8_t dsdt[64];

	memset(dsdt, 0, sizeof(dsdt));
	memset(&info, 0, sizeof(info));
	EXPECT_EQ(t, acpi_parse_s5(dsdt, sizeof(dsdt), &info), -ENOENT);
	memcpy(dsdt + 40, "_S5_\x12\x07\x04\x0a\x05\x0a\x06", 11);
	EXPECT_EQ(t, acpi_parse_s5(dsdt, sizeof(dsdt), &info), 0);
	EXPECT_TRUE(t, info.slp_known);
	EXPECT_EQ(t, info.slp_typ5, 0x605);
	EXPECT_EQ(t, acpi_parse_s5(dsdt, 40, &info), -ENOENT);
	/* A package length that leads past the end. */
	memset(dsdt, 0, sizeof(dsdt));
	memcpy(dsdt + 52, "_S5_\x12\xff\x04\x0a\x05\x0a\x06", 11);
	EXPECT_EQ(t, acpi_parse_s5(dsdt, sizeof(dsdt), &info), -EINVAL);
}

static const struct ktest_case acpi_cases[] = {
	KTEST(madt_is_read),
	KTEST(bad_madt_is_refused),
	KTEST(short_entries_are_skipped),
	KTEST(hostile_cpu_lists),
	KTEST(too_many_cpus),
	KTEST(s5_value),
	{ 0 },
};
static const struct ktest_suite acpi_suite = { .name = "arch.acpi", .cases = acpi_cases };
KTEST_SUITE(acpi_suite);
