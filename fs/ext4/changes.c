/* SPDX-License-Identifier: MIT */
/*
 * ext4: the record of changes that were done, so that a repeated request is not done twice.
 *
 * The record is a ring of slots of 128 bytes in the data of the boot loader inode (5), which is
 * outside of the tree: e2fsck accepts it, Linux does not look at it.  Slot 0 is a header.  A record
 * is written in the transaction of its change, as metadata.
 *
 * Flow:	the first mount that may write gives the inode its blocks; each mount reads them and
 *		makes an index in memory, by client and number of the change.
 * Context:	threads with a handle; sleeps.
 * Locking:	all of it: fs->change.
 * Limits:	1/256 of the disk, at most 2 MiB (16,383 records).  The oldest makes room.
 * Failure:	a disk that is too small or too full, or whose inode 5 is in use, does without, and
 *		one line says so; also one whose record cannot be read, unless changes may be asked
 *		for again: then the mount is refused, as doing one twice may destroy what a program
 *		has written.  A slot that is damaged, or not of this ring, is empty.
 * See:		docs/design/storage.md
 */
#define PR_FMT "ext4: "

#include <abi/stat.h>
#include <drivers/blkdev.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/rwsem.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/siphash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"

#define BOOT_LOADER_INO 5u
#define SLOT_LEN        128u
#define HEADER_MAGIC    0x48434654u /* "TFCH" */
#define RECORD_MAGIC    0x52434654u /* "TFCR" */
#define VERSION         1u
#define MAX_BYTES       (2u << 20)
#define MIN_BYTES       (16u << 10)
#define DISK_SHARE      256u
#define IO_LEN          65536u
#define MAX_SERIAL      (1ull << 62)
#define NO_SLOT         UINT32_MAX

struct change_header {
	le32_t magic;
	le16_t version;
	le16_t slot_len;
	le32_t nr_blocks;
	uint8_t reserved[112]; /* 0 */
	le32_t csum;           /* of what is before it */
};
static_assert(sizeof(struct change_header) == SLOT_LEN, "a slot of the disk");

struct change_record {
	le32_t magic;
	le16_t len; /* of the answer */
	le16_t reserved;
	le64_t client;
	le64_t seq;
	le64_t serial; /* 1 for the first record ever; says in which slot it is */
	uint8_t answer[EXT4_CHANGE_ANSWER_MAX];
	le32_t reserved2;
	le32_t csum; /* of what is before it */
};
static_assert(sizeof(struct change_record) == SLOT_LEN, "a slot of the disk");
static_assert(offsetof(struct change_record, answer) == 32, "a slot of the disk");

struct change_key {
	uint64_t client; /* 0: the slot is empty */
	uint64_t seq;
	uint64_t serial;
	uint32_t next; /* of the same bucket */
};

struct ext4_changes {
	uint64_t *blocks; /* const: where the ring is */
	uint32_t nr_blocks;
	uint32_t per_block;
	uint32_t nr_slots; /* beside the header */
	uint32_t seed;     /* of checksums */
	uint64_t next;     /* serial of the next record; fs->change */
	struct change_key *keys;
	uint32_t *buckets;
	uint32_t mask;
	struct siphash_key secret; /* peers choose what is looked up */
	/* The last key and its bucket: a change is looked up before it is recorded. */
	uint64_t last[2];
	uint32_t last_bucket;
};

static uint32_t slot_csum(const struct ext4_changes *c, const void *slot)
{
	return crc32c(c->seed, slot, SLOT_LEN - sizeof(le32_t));
}

static uint32_t slot_of(const struct ext4_changes *c, uint64_t serial)
{
	return (uint32_t)((serial - 1) % c->nr_slots);
}

/* --- the index --- */

static uint32_t *bucket_of(struct ext4_changes *c, uint64_t client, uint64_t seq)
{
	const uint64_t key[2] = { client, seq };

	/* Client 0 is none, so this is none at first. */
	if (c->last[0] != client || c->last[1] != seq || !client) {
		c->last[0] = client;
		c->last[1] = seq;
		c->last_bucket = (uint32_t)siphash24(&c->secret, key, sizeof(key)) & c->mask;
	}
	return &c->buckets[c->last_bucket];
}

/* The newest record of the change, or NO_SLOT. */
static uint32_t find_slot(struct ext4_changes *c, uint64_t client, uint64_t seq)
{
	uint32_t best = NO_SLOT;

	for (uint32_t i = *bucket_of(c, client, seq); i != NO_SLOT; i = c->keys[i].next) {
		if (c->keys[i].client == client && c->keys[i].seq == seq &&
		    (best == NO_SLOT || c->keys[i].serial > c->keys[best].serial))
			best = i;
	}
	return best;
}

static void index_remove(struct ext4_changes *c, uint32_t slot)
{
	struct change_key *k = &c->keys[slot];
	uint32_t *at;

	if (!k->client)
		return;
	at = bucket_of(c, k->client, k->seq);
	while (*at != slot)
		at = &c->keys[*at].next;
	*at = k->next;
	k->client = 0;
}

static void index_add(struct ext4_changes *c, uint32_t slot, uint64_t client, uint64_t seq,
		      uint64_t serial)
{
	uint32_t *bucket = bucket_of(c, client, seq);

	ASSERT(!c->keys[slot].client && client);
	c->keys[slot] = (struct change_key){
		.client = client, .seq = seq, .serial = serial, .next = *bucket
	};
	*bucket = slot;
}

/* --- reading the ring --- */

static bool record_ok(const struct ext4_changes *c, const struct change_record *r, uint32_t slot)
{
	const uint64_t serial = le64_to_cpu(r->serial);

	return le32_to_cpu(r->magic) == RECORD_MAGIC && le32_to_cpu(r->csum) == slot_csum(c, r) &&
	       le16_to_cpu(r->len) <= EXT4_CHANGE_ANSWER_MAX && le64_to_cpu(r->client) && serial &&
	       serial < MAX_SERIAL && slot_of(c, serial) == slot;
}

static bool header_ok(const struct ext4_changes *c, const void *data)
{
	const struct change_header *h = data;

	return le32_to_cpu(h->magic) == HEADER_MAGIC && le16_to_cpu(h->version) == VERSION &&
	       le16_to_cpu(h->slot_len) == SLOT_LEN && le32_to_cpu(h->csum) == slot_csum(c, h) &&
	       le32_to_cpu(h->nr_blocks) == c->nr_blocks;
}

static void read_slots(struct ext4_changes *c, uint32_t block, const uint8_t *data)
{
	for (uint32_t i = block ? 0 : 1; i < c->per_block; i++) {
		const struct change_record *r = (const void *)(data + (size_t)i * SLOT_LEN);
		const uint32_t slot = block * c->per_block + i - 1;

		if (!record_ok(c, r, slot))
			continue;
		index_add(c, slot, le64_to_cpu(r->client), le64_to_cpu(r->seq),
			  le64_to_cpu(r->serial));
		c->next = MAX(c->next, le64_to_cpu(r->serial) + 1);
	}
}

/* 0; 1: its contents are not a record. */
static int read_ring(struct ext4_fs *fs, struct ext4_changes *c, uint8_t *buf)
{
	const uint32_t max = IO_LEN >> fs->block_bits;
	int err;

	for (uint32_t at = 0, nr; at < c->nr_blocks; at += nr) {
		nr = 1;
		while (nr < max && at + nr < c->nr_blocks &&
		       c->blocks[at + nr] == c->blocks[at] + nr)
			nr++;
		err = blk_read(fs->bd, c->blocks[at] << (fs->block_bits - BLK_SECTOR_SHIFT), buf,
			       nr << fs->block_bits);
		if (err)
			return err;
		if (!at && !header_ok(c, buf))
			return 1;
		for (uint32_t i = 0; i < nr; i++)
			read_slots(c, at + i, buf + ((size_t)i << fs->block_bits));
	}
	return 0;
}

static void changes_free(struct ext4_changes *c)
{
	if (!c)
		return;
	kfree(c->blocks);
	kfree(c->keys);
	kfree(c->buckets);
	kfree(c);
}

static struct ext4_changes *changes_new(struct ext4_fs *fs, uint32_t nr_blocks, uint32_t seed)
{
	struct ext4_changes *c = kzalloc(sizeof(*c));
	uint32_t nr_buckets = 64;

	if (!c)
		return NULL;
	c->nr_blocks = nr_blocks;
	c->per_block = fs->block_size / SLOT_LEN;
	c->nr_slots = nr_blocks * c->per_block - 1;
	c->seed = seed;
	c->next = 1;
	c->secret = (struct siphash_key){ random_u64(), random_u64() };
	while (nr_buckets < c->nr_slots)
		nr_buckets *= 2;
	c->mask = nr_buckets - 1;
	c->blocks = kcalloc(nr_blocks, sizeof(*c->blocks));
	c->keys = kcalloc(c->nr_slots, sizeof(*c->keys));
	c->buckets = kcalloc(nr_buckets, sizeof(*c->buckets));
	if (c->blocks && c->keys && c->buckets) {
		memset(c->buckets, 0xff, (size_t)nr_buckets * sizeof(*c->buckets));
		return c;
	}
	changes_free(c);
	return NULL;
}

/* Where the blocks of @in are; 1: it has holes. */
static int map_ring(struct ext4_inode *in, struct ext4_changes *c)
{
	struct ext4_map map;
	int err = 0;

	for (uint32_t at = 0; at < c->nr_blocks && !err; at += map.len) {
		err = ext4_map_blocks(in, at, c->nr_blocks - at, &map);
		if (!err && (map.type != EXT4_MAP_DATA || !map.len))
			err = 1;
		for (uint32_t i = 0; !err && i < map.len && at + i < c->nr_blocks; i++)
			c->blocks[at + i] = map.block + i;
	}
	return err;
}

/* Take over what inode 5 has; @fresh: it is empty, and not in place yet.  1: it is not a record. */
static int open_ring(struct ext4_fs *fs, struct ext4_inode *in, bool fresh)
	__no_lock_analysis("one inode")
{
	const uint64_t nr = in->size >> fs->block_bits;
	struct ext4_changes *c;
	uint8_t *buf;
	int err;

	if ((in->mode & S_IFMT) != S_IFREG || (in->flags & EXT4_FL_INLINE_DATA) || !nr ||
	    in->size > MAX_BYTES || (in->size & (fs->block_size - 1)))
		return 1;
	c = changes_new(fs, (uint32_t)nr, in->csum_seed);
	buf = kmalloc(IO_LEN);
	err = c && buf ? 0 : -ENOMEM;
	if (!err) {
		rwsem_read_lock(&in->lock);
		err = map_ring(in, c);
		rwsem_read_unlock(&in->lock);
	}
	if (!err && !fresh)
		err = read_ring(fs, c, buf);
	kfree(buf);
	if (err)
		changes_free(c);
	else
		fs->changes_done = c;
	return err;
}

/* --- making it --- */

static int zero_blocks(struct ext4_fs *fs, uint64_t block, uint32_t nr, const uint8_t *zeros)
{
	int err = 0;

	for (uint32_t i = 0, n; i < nr && !err; i += n) {
		n = MIN(nr - i, IO_LEN >> fs->block_bits);
		err = blk_write(fs->bd, (block + i) << (fs->block_bits - BLK_SECTOR_SHIFT), zeros,
				n << fs->block_bits, 0);
	}
	return err;
}

/* Up to @want blocks, all in one transaction; *@nr: how many. */
static int fill_inode(struct ext4_op *op, struct ext4_inode *in, uint32_t want, uint32_t *nr)
{
	uint8_t *zeros = kzalloc(IO_LEN);
	struct ext4_map map;
	bool fresh;
	int err = zeros ? 0 : -ENOMEM;

	*nr = 0;
	while (!err && *nr < want && ext4_op_more(op, EXT4_CREDITS_MAP)) {
		err = ext4_map_alloc(op, in, *nr, want - *nr, false, &map, &fresh);
		if (!err)
			err = zero_blocks(op->fs, map.block, map.len, zeros);
		if (!err)
			*nr += map.len;
	}
	kfree(zeros);
	return err == -ENOSPC && *nr ? 0 : err;
}

static int write_header(struct ext4_op *op, struct ext4_inode *in, uint32_t nr)
{
	struct change_header h = { .magic = cpu_to_le32(HEADER_MAGIC),
				   .version = cpu_to_le16(VERSION),
				   .slot_len = cpu_to_le16(SLOT_LEN),
				   .nr_blocks = cpu_to_le32(nr) };
	struct bcache_buf *buf;
	struct ext4_map map;
	int err;

	h.csum = cpu_to_le32(crc32c(in->csum_seed, &h, SLOT_LEN - sizeof(le32_t)));
	err = ext4_map_blocks(in, 0, 1, &map);
	if (err)
		return err;
	buf = bcache_get(op->fs->bc, map.block);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	err = ext4_write_access(op->h, buf);
	if (!err) {
		memset(buf->data, 0, op->fs->block_size);
		memcpy(buf->data, &h, sizeof(h));
		err = ext4_dirty(op->h, buf);
	}
	bcache_put(buf);
	return err;
}

static int make_ring(struct ext4_fs *fs, uint32_t want)
{
	struct ext4_inode *in = ext4_inode_new(fs);
	uint32_t nr = 0;
	struct ext4_op op;
	int err;

	if (!in)
		return -ENOMEM;
	in->ino = BOOT_LOADER_INO;
	err = ext4_op_begin(&op, fs, EXT4_CREDITS_NAMES, NULL, &in, 1);
	if (!err) {
		ext4_inode_init(&op, in, 0, S_IFREG | 0600);
		in->nlink = 1; /* as Linux has it when it uses this inode */
		err = fill_inode(&op, in, want, &nr);
		in->size = (uint64_t)nr << fs->block_bits;
		if (!err)
			err = write_header(&op, in, nr);
		if (!err)
			err = ext4_inode_write(&op, in);
		if (err && nr)
			err = ext4_op_abort(&op, err, "making the record of changes");
		err = ext4_op_end(&op, in, err);
	}
	/* It never was in the cache: mounted again, it is read from the disk. */
	in->gone = true;
	ext4_inode_put(in);
	return err;
}

/* How many blocks the record may have; 0: none. */
static uint32_t ring_blocks(struct ext4_fs *fs)
{
	const uint64_t bytes =
		MIN((fs->nr_blocks << fs->block_bits) / DISK_SHARE, (uint64_t)MAX_BYTES);
	const uint64_t nr = bytes >> fs->block_bits;

	if (bytes < MIN_BYTES || ext4_free_blocks(fs) < fs->r_blocks + 2 * nr)
		return 0;
	return (uint32_t)nr;
}

static int open_or_make(struct ext4_fs *fs, const char **why)
{
	struct ext4_inode *in;
	bool fresh = false;
	int err = 0;

	in = ext4_inode_get_special(fs, BOOT_LOADER_INO);
	if (PTR_ERR(in) == -ESTALE) {
		const uint32_t nr = ring_blocks(fs);

		*why = "the disk is too small or too full";
		err = nr ? make_ring(fs, nr) : 1;
		if (err)
			return err == -ENOSPC ? 1 : err;
		fresh = true;
		in = ext4_inode_get_special(fs, BOOT_LOADER_INO);
	}
	*why = "inode 5 holds something else";
	if (IS_ERR(in))
		return PTR_ERR(in) == -EUCLEAN ? 1 : (int)PTR_ERR(in);
	err = open_ring(fs, in, fresh);
	ext4_inode_put(in);
	return err == -EUCLEAN ? 1 : err;
}

int ext4_changes_start(struct ext4_fs *fs)
{
	const char *why = "";
	int err = open_or_make(fs, &why);

	if (err == -EIO && fs->repeats)
		return ext4_refuse(fs, err,
				   "the record of changes (inode 5) cannot be read, and "
				   "changes may be asked for again");
	if (err == -EIO) {
		why = "it cannot be read";
		err = 1;
	}
	if (err == 1)
		pr_info("%s: no record of changes: %s; a change repeated after a restart is done "
			"twice\n",
			fs->bd->name, why);
	return err == 1 ? 0 : err;
}

void ext4_changes_stop(struct ext4_fs *fs)
{
	changes_free(fs->changes_done);
	fs->changes_done = NULL;
}

/* --- using it --- */

int ext4_record_change(struct ext4_handle *h, uint64_t client, uint64_t seq, const void *answer,
		       size_t len)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	struct ext4_changes *c = fs->changes_done;
	struct change_record r = { .magic = cpu_to_le32(RECORD_MAGIC),
				   .len = cpu_to_le16((uint16_t)len),
				   .client = cpu_to_le64(client),
				   .seq = cpu_to_le64(seq) };
	struct bcache_buf *buf;
	uint32_t slot;
	int err;

	assert_mutex_held(&fs->change);
	if (!c)
		return 0;
	if (!client || len > EXT4_CHANGE_ANSWER_MAX)
		return -EINVAL;
	slot = slot_of(c, c->next);
	r.serial = cpu_to_le64(c->next);
	memcpy(r.answer, answer, len);
	r.csum = cpu_to_le32(slot_csum(c, &r));
	buf = bcache_get(fs->bc, c->blocks[(slot + 1) / c->per_block]);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	err = ext4_write_access(h, buf);
	if (!err) {
		memcpy(buf->data + (size_t)((slot + 1) % c->per_block) * SLOT_LEN, &r, sizeof(r));
		err = ext4_dirty(h, buf);
	}
	bcache_put(buf);
	if (err)
		return err;
	index_remove(c, slot);
	index_add(c, slot, client, seq, c->next++);
	return 0;
}

int ext4_find_change(struct ext4_fs *fs, uint64_t client, uint64_t seq, void *answer)
{
	struct ext4_changes *c = fs->changes_done;
	struct change_record r;
	struct bcache_buf *buf;
	uint32_t slot;
	int ret = -ENOENT;

	mutex_lock(&fs->change);
	slot = c && client ? find_slot(c, client, seq) : NO_SLOT;
	if (slot != NO_SLOT) {
		buf = bcache_get(fs->bc, c->blocks[(slot + 1) / c->per_block]);
		if (IS_ERR(buf)) {
			ret = (int)PTR_ERR(buf);
		} else {
			memcpy(&r, buf->data + (size_t)((slot + 1) % c->per_block) * SLOT_LEN,
			       sizeof(r));
			bcache_put(buf);
			if (record_ok(c, &r, slot) && le64_to_cpu(r.client) == client &&
			    le64_to_cpu(r.seq) == seq) {
				ret = le16_to_cpu(r.len);
				memcpy(answer, r.answer, (size_t)ret);
			}
		}
	}
	mutex_unlock(&fs->change);
	return ret;
}
