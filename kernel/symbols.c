/* SPDX-License-Identifier: MIT */
/*
 * Names for kernel addresses, from the table that scripts/gen-symbols.py makes.
 */
#include <kernel/symbols.h>
#include <lib/fmt.h>

extern const uint64_t ksym_base;
extern const uint32_t ksym_count;
extern const uint32_t ksym_offset[];
extern const uint32_t ksym_name[];
extern const char ksym_names[];

extern const uint8_t build_id_note_start[], build_id_note_end[];

const char *symbol_lookup(uint64_t addr, uint64_t *start, uint64_t *size)
{
	uint32_t lo = 0;
	uint32_t hi = ksym_count;
	uint64_t off;

	if (ksym_count == 0 || addr < ksym_base)
		return NULL;
	off = addr - ksym_base;
	if (off < ksym_offset[0] || off >= ksym_offset[ksym_count])
		return NULL;
	while (hi - lo > 1) {
		const uint32_t mid = lo + (hi - lo) / 2;

		if (ksym_offset[mid] <= off)
			lo = mid;
		else
			hi = mid;
	}
	*start = ksym_base + ksym_offset[lo];
	*size = ksym_offset[lo + 1] - ksym_offset[lo];
	return &ksym_names[ksym_name[lo]];
}

void symbol_format(char *buf, size_t len, uint64_t addr)
{
	uint64_t start;
	uint64_t size;
	const char *name = symbol_lookup(addr, &start, &size);

	if (name)
		snprintf(buf, len, "%s+%#lx/%#lx", name, addr - start, size);
	else
		snprintf(buf, len, "%#lx", addr);
}

#define NOTE_HEADER 16u /* three words and "GNU\0" */

const char *build_id(void)
{
	static char text[41];
	const size_t len = (size_t)(build_id_note_end - build_id_note_start);

	if (!text[0]) {
		for (size_t i = NOTE_HEADER; i < len && 2 * (i - NOTE_HEADER) + 2 < sizeof(text);
		     i++)
			snprintf(text + 2 * (i - NOTE_HEADER), 3, "%02x", build_id_note_start[i]);
	}
	return text;
}
