/* SPDX-License-Identifier: MIT */
/*
 * ext4: extended attributes as bytes: a list of entries from the front, values from the back.
 *
 * Failure:	-EUCLEAN: an entry or a value leaves its room, or lies over another's entry.
 */
#include <kernel/panic.h>
#include <lib/byteorder.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "xattr_priv.h"

#define PAD(n) ((uint32_t)ALIGN_UP((size_t)(n), (size_t)4))

static uint32_t entry_len(uint32_t name_len)
{
	return PAD(sizeof(struct ext4_xattr_entry) + name_len);
}

int xattr_add(struct xattr_set *set, const struct xattr_item *item)
{
	if (set->nr == set->room) {
		const uint32_t room = set->room ? set->room * 2 : 8;
		struct xattr_item *items = ext4_alloc(set->fs, room * sizeof(*items));

		if (!items)
			return -ENOMEM;
		if (set->nr)
			memcpy(items, set->items, set->nr * sizeof(*items));
		kfree(set->items);
		set->items = items;
		set->room = room;
	}
	set->items[set->nr++] = *item;
	return 0;
}

void xattr_drop(struct xattr_set *set, struct xattr_item *item)
{
	ASSERT(item >= set->items && item < set->items + set->nr);
	*item = set->items[--set->nr];
}

int xattr_parse(const uint8_t *base, uint32_t first, uint32_t len, struct xattr_set *out)
{
	const uint32_t end = first + len;
	uint32_t at = first, lowest = end;
	int err = 0;

	while (!err) {
		struct ext4_xattr_entry e;
		struct xattr_item item;
		uint32_t offs;

		if (end - at < 4)
			return -EUCLEAN;
		if (!get_unaligned_le32(base + at))
			break;
		if (end - at < sizeof(e))
			return -EUCLEAN;
		memcpy(&e, base + at, sizeof(e));
		if (entry_len(e.name_len) > end - at)
			return -EUCLEAN;
		if (e.value_inum)
			return -EOPNOTSUPP; /* kept in a file of its own */
		item = (struct xattr_item){
			.index = e.name_index,
			.name_len = e.name_len,
			.name = (const char *)base + at + sizeof(e),
			.value_len = le32_to_cpu(e.value_size),
		};
		offs = le16_to_cpu(e.value_offs);
		if (item.value_len) {
			if (offs > end || item.value_len > end - offs)
				return -EUCLEAN;
			lowest = MIN(lowest, offs);
		}
		item.value = base + offs;
		err = xattr_add(out, &item);
		at += entry_len(e.name_len);
	}
	if (!err && lowest < at + 4)
		return -EUCLEAN;
	return err;
}

bool xattr_fits(const struct xattr_set *set, uint32_t len)
{
	uint64_t need = 4;

	for (uint32_t i = 0; i < set->nr; i++)
		need += entry_len(set->items[i].name_len) + (uint64_t)PAD(set->items[i].value_len);
	return need <= len;
}

/* The order that Linux wants in a block. */
static int compare(const struct xattr_item *a, const struct xattr_item *b)
{
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	if (a->name_len != b->name_len)
		return a->name_len < b->name_len ? -1 : 1;
	return memcmp(a->name, b->name, a->name_len);
}

static void sort(const struct xattr_set *set)
{
	for (uint32_t i = 1; i < set->nr; i++) {
		const struct xattr_item item = set->items[i];
		uint32_t j = i;

		for (; j > 0 && compare(&item, &set->items[j - 1]) < 0; j--)
			set->items[j] = set->items[j - 1];
		set->items[j] = item;
	}
}

/* Over the name and the value as it stands on the disk, padded with zeros. */
static uint32_t hash_of(const struct xattr_item *item, const uint8_t *value)
{
	uint32_t hash = 0;

	for (uint32_t i = 0; i < item->name_len; i++)
		hash = (hash << 5) ^ (hash >> 27) ^ (uint8_t)item->name[i];
	for (uint32_t i = 0; i < PAD(item->value_len); i += 4)
		hash = (hash << 16) ^ (hash >> 16) ^ get_unaligned_le32(value + i);
	return hash;
}

void xattr_build(const struct xattr_set *set, uint8_t *base, uint32_t first, uint32_t len,
		 bool hashes)
{
	uint32_t at = first, value_at = first + len;

	ASSERT(xattr_fits(set, len));
	/* In an inode places count from the first entry, in a block from its start. */
	sort(set);
	memset(base + first, 0, len);
	for (uint32_t i = 0; i < set->nr; i++) {
		const struct xattr_item *item = &set->items[i];
		struct ext4_xattr_entry e = {
			.name_len = item->name_len,
			.name_index = item->index,
			.value_size = cpu_to_le32(item->value_len),
		};

		value_at -= PAD(item->value_len);
		if (item->value_len) {
			memcpy(base + value_at, item->value, item->value_len);
			e.value_offs = cpu_to_le16((uint16_t)value_at);
		}
		if (hashes)
			e.hash = cpu_to_le32(hash_of(item, base + value_at));
		memcpy(base + at, &e, sizeof(e));
		memcpy(base + at + sizeof(e), item->name, item->name_len);
		at += entry_len(item->name_len);
	}
}
