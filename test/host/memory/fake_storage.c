/* SPDX-License-Identifier: MIT */
/*
 * The storage node's part for files that change: claims, and contents in memory.
 */
#include <stdlib.h>
#include <string.h>

#include <lib/errno.h>
#include <proto/ms.h>

#include "fake.h"

bool is_fake_storage(uint16_t opcode)
{
	return opcode >= MS_CLAIM && opcode <= MS_RESERVE;
}

void fake_storage_stop(struct fake *f)
{
	for (uint32_t i = 0; i < FAKE_MAX_FILES; i++)
		free(f->disks[i].bytes);
}

/* The blocks of a page of which the file has the first @bytes. */
static uint8_t blocks_of(const struct fake *f, uint64_t bytes)
{
	const uint32_t size = f->block_size ? f->block_size : (uint32_t)PAGE_SIZE;

	return (uint8_t)((1u << DIV_ROUND_UP(MIN(bytes, (uint64_t)PAGE_SIZE), size)) - 1);
}

static uint64_t nr_blocks(uint8_t blocks)
{
	return (uint64_t)__builtin_popcount(blocks);
}

static uint64_t blocks_per_page(const struct fake *f)
{
	return nr_blocks(blocks_of(f, PAGE_SIZE));
}

/* From now on the file's contents are bytes of its own. */
static void make_bytes(struct fake *f, uint64_t ino)
{
	struct fake_file *file = &f->files[ino - 1];
	struct fake_disk *d = &f->disks[ino - 1];

	if (d->bytes)
		return;
	d->bytes = calloc(1, FAKE_DISK_MAX);
	for (uint64_t i = 0; i < file->size; i++)
		d->bytes[i] = file->data ? file->data[i] : fake_byte(ino, i);
	for (uint64_t at = 0; at < file->size; at += PAGE_SIZE)
		d->blocks[at / PAGE_SIZE] = blocks_of(f, file->size - at);
	file->data = d->bytes;
}

static void set_size(struct fake *f, uint64_t ino, uint64_t size)
{
	struct fake_file *file = &f->files[ino - 1];
	struct fake_disk *d = &f->disks[ino - 1];

	if (size < file->size) {
		memset(d->bytes + size, 0, file->size - size);
		for (uint64_t i = size / PAGE_SIZE; i < FAKE_DISK_MAX / PAGE_SIZE; i++)
			d->blocks[i] &= i * PAGE_SIZE < size ? blocks_of(f, size % PAGE_SIZE) : 0;
	}
	file->size = size;
}

static int reply_state(struct fake *f, const struct proto_file *file, void *reply)
{
	const struct fake_disk *d = &f->disks[file->ino - 1];
	const struct ms_file_state state = { .epoch = d->epoch,
					     .size = f->files[file->ino - 1].size,
					     .version = f->files[file->ino - 1].version,
					     .node = d->node,
					     .max_size = d->max_size ? d->max_size : INT64_MAX };

	ms_file_state_encode(&state, reply);
	return sizeof(struct ms_file_state_wire);
}

static bool is_claimed_by(const struct fake *f, uint64_t ino, uint32_t from, uint64_t epoch)
{
	return ino && ino <= FAKE_MAX_FILES && f->disks[ino - 1].node == from &&
	       f->disks[ino - 1].epoch == epoch;
}

static int serve_claim(struct fake *f, uint32_t from, const void *body, uint32_t len, void *reply)
{
	struct ms_file_state other = { 0 };
	struct ms_claim_req req;
	struct fake_disk *d;
	int err = ms_claim_req_decode(body, len, &req);

	if (err)
		return err;
	if (!req.file.ino || req.file.ino > FAKE_MAX_FILES || f->disks[req.file.ino - 1].removed)
		return -ESTALE;
	if (req.epoch && req.epoch >> 32 != f->storage_life && f->declared == f->storage_life)
		return -ENOLCK;
	d = &f->disks[req.file.ino - 1];
	if (d->node && d->node != from) {
		other.node = d->node;
		ms_file_state_encode(&other, reply);
		return sizeof(struct ms_file_state_wire);
	}
	make_bytes(f, req.file.ino);
	d->node = from;
	d->epoch = (uint64_t)f->storage_life << 32 | ++f->epochs;
	return reply_state(f, &req.file, reply);
}

static bool is_hole(const struct fake *f, uint64_t ino, uint64_t pgoff)
{
	return pgoff >= FAKE_DISK_MAX / PAGE_SIZE ||
	       f->disks[ino - 1].blocks[pgoff] != blocks_of(f, PAGE_SIZE);
}

static void take_blocks(struct fake *f, struct fake_disk *d, uint64_t pgoff, uint8_t blocks)
{
	const uint64_t fresh = nr_blocks(blocks & (uint8_t)~d->blocks[pgoff]);
	const uint64_t promised = MIN(fresh, d->promised);

	d->unpromised += fresh - promised;
	d->promised -= promised;
	d->blocks[pgoff] |= blocks;
	f->room -= MIN(f->room, fresh);
}

static int serve_write(struct fake *f, uint32_t from, const void *body, uint32_t len,
		       const uint8_t *data, uint32_t data_len, void *reply)
{
	struct ms_write_req req;
	struct fake_disk *d;
	int err = ms_write_req_decode(body, len, &req);

	if (!err && data_len != req.nr_pages * PAGE_SIZE)
		err = -EMSGSIZE;
	if (!err && !is_claimed_by(f, req.file.ino, from, req.epoch))
		err = -ESTALE;
	if (err)
		return err;
	d = &f->disks[req.file.ino - 1];
	if (d->error)
		return d->error;
	if (d->max_size && req.size > d->max_size)
		return -EFBIG;
	if (req.size > FAKE_DISK_MAX)
		return -ENOSPC;
	if (req.size < f->files[req.file.ino - 1].size)
		return -EINVAL;
	for (uint32_t i = 0; i < req.nr_pages; i++) {
		const uint64_t pos = (req.pgoff + i) * PAGE_SIZE;

		take_blocks(f, d, req.pgoff + i, blocks_of(f, req.size - pos));
		memcpy(d->bytes + pos, data + i * PAGE_SIZE,
		       MIN((uint64_t)PAGE_SIZE, req.size - pos));
	}
	set_size(f, req.file.ino, req.size);
	f->files[req.file.ino - 1].version++;
	d->writes++;
	for (uint64_t pos = 0; pos < req.size; pos += PAGE_SIZE)
		d->holes_seen += !d->bytes[pos];
	d->syncs += req.flags & MS_WRITE_SYNC;
	return reply_state(f, &req.file, reply);
}

/* Pages of zeroes are holes. */
static int64_t seek_disk(const struct fake_disk *d, uint64_t size, uint64_t off, bool data)
{
	static const uint8_t zeroes[PAGE_SIZE];

	if (off >= size)
		return -ENXIO;
	for (uint64_t at = off & ~(uint64_t)PAGE_MASK_LOW; at < size; at += PAGE_SIZE) {
		if (!memcmp(d->bytes + at, zeroes, PAGE_SIZE) != data)
			return (int64_t)MAX(at, off);
	}
	return data ? -ENXIO : (int64_t)size;
}

static int serve_seek(struct fake *f, const struct ms_change_req *req, void *reply)
{
	const struct fake_file *file = &f->files[req->file.ino - 1];
	const int64_t at = seek_disk(&f->disks[req->file.ino - 1], file->size, req->off,
				     req->op == PROTO_FILE_SEEK_DATA);
	struct ms_file_state_wire *w = reply;

	if (at < 0)
		return (int)at;
	(void)reply_state(f, &req->file, reply);
	w->pos = cpu_to_le64((uint64_t)at);
	return sizeof(*w);
}

static void punch(struct fake_disk *d, uint64_t off, uint64_t len)
{
	const uint64_t first = DIV_ROUND_UP(off, PAGE_SIZE), end = (off + len) / PAGE_SIZE;

	memset(d->bytes + off, 0, len);
	if (first < end)
		memset(d->blocks + first, 0, end - first);
}

/* Blocks that other files were promised are not for this one. */
static int allocate(struct fake *f, struct fake_disk *d, uint64_t off, uint64_t len, uint64_t keep)
{
	const uint64_t first = off / PAGE_SIZE, end = DIV_ROUND_UP(off + len, PAGE_SIZE);
	const uint64_t unpromised = d->unpromised;
	uint64_t needed = 0;

	if (off + len > FAKE_DISK_MAX)
		return -EFBIG;
	for (uint64_t i = first; i < end; i++)
		needed += nr_blocks(blocks_of(f, PAGE_SIZE) & (uint8_t)~d->blocks[i]);
	keep = MIN(keep, d->promised);
	for (uint32_t i = 0; i < FAKE_MAX_FILES; i++)
		needed += &f->disks[i] == d ? keep : f->disks[i].promised;
	if (f->room_known && needed > f->room)
		return -ENOSPC;
	d->promised = 0;
	for (uint64_t i = first; i < end; i++)
		take_blocks(f, d, i, blocks_of(f, PAGE_SIZE));
	d->promised = keep;
	d->unpromised = unpromised;
	return 0;
}

static int serve_change(struct fake *f, uint32_t from, const void *body, uint32_t len, void *reply)
{
	struct ms_change_req req;
	struct fake_file *file;
	struct fake_disk *d;
	int err = ms_change_req_decode(body, len, &req);

	if (!err && !is_claimed_by(f, req.file.ino, from, req.epoch))
		err = -ESTALE;
	if (err)
		return err;
	d = &f->disks[req.file.ino - 1];
	file = &f->files[req.file.ino - 1];
	if (d->error)
		return d->error;
	if (req.op == PROTO_FILE_SEEK_DATA || req.op == PROTO_FILE_SEEK_HOLE)
		return serve_seek(f, &req, reply);
	if (req.op == PROTO_FILE_ALLOCATE_KEEP)
		err = allocate(f, d, req.off, req.len, req.keep * blocks_per_page(f));
	else if (req.op == PROTO_FILE_TRUNCATE)
		set_size(f, req.file.ino, req.off);
	else if (req.op == PROTO_FILE_PUNCH && req.off < file->size)
		punch(d, req.off, MIN(req.len, file->size - req.off));
	else if (req.op != PROTO_FILE_PUNCH)
		return -EOPNOTSUPP;
	if (err)
		return err;
	file->version++;
	return reply_state(f, &req.file, reply);
}

static int serve_release(struct fake *f, uint32_t from, const void *body, uint32_t len)
{
	struct ms_release_req req;
	const int err = ms_release_req_decode(body, len, &req);

	if (err)
		return err;
	if (is_claimed_by(f, req.file.ino, from, req.epoch)) {
		f->disks[req.file.ino - 1].node = 0;
		f->disks[req.file.ino - 1].promised = 0;
	}
	return 0;
}

static int serve_declare(struct fake *f, const void *body, uint32_t len)
{
	struct ms_declare_req req;
	const int err = ms_declare_req_decode(body, len, &req);

	if (err)
		return err;
	if (req.incarn != f->storage_life)
		return -ESTALE;
	f->declared = req.incarn;
	return 0;
}

static int serve_reserve(struct fake *f, uint32_t from, const void *body, uint32_t len, void *reply)
{
	const uint64_t per = blocks_per_page(f);
	struct ms_reserve_rep rep = { 0 };
	struct ms_reserve_req req;
	uint64_t needed = 0, all = 0, others = 0;
	struct fake_disk *d;
	int err = ms_reserve_req_decode(body, len, &req);

	if (!err && !is_claimed_by(f, req.file.ino, from, req.epoch))
		err = -ESTALE;
	if (err)
		return err;
	d = &f->disks[req.file.ino - 1];
	for (uint32_t i = 0; i < FAKE_MAX_FILES; i++)
		others += i + 1 == req.file.ino ? req.others * per : f->disks[i].promised;
	for (uint32_t i = 0; i < req.nr; i++) {
		if (!is_hole(f, req.file.ino, req.pgoff + i))
			continue;
		needed += i < req.need ? per : 0;
		all += per;
		rep.holes[i / 8] |= (uint8_t)(1u << i % 8);
	}
	while (req.nr && rep.mapped < FAKE_DISK_MAX / PAGE_SIZE &&
	       !is_hole(f, req.file.ino, req.pgoff + rep.mapped))
		rep.mapped++;
	d->reserves++;
	d->privileged += req.flags & MS_RESERVE_PRIVILEGED;
	if (f->room_known && needed && others + needed > f->room)
		return -ENOSPC;
	rep.covered = req.nr;
	if (f->room_known && all > needed && others + all > f->room) {
		rep.covered = req.need;
		for (uint32_t i = req.need; i < MS_RESERVE_MAX_PAGES; i++)
			rep.holes[i / 8] &= (uint8_t)~(1u << i % 8);
		all = needed;
	}
	d->promised = req.others * per + all;
	ms_reserve_rep_encode(&rep, reply);
	return sizeof(struct ms_reserve_rep_wire);
}

void fake_storage_again(struct fake *f)
{
	f->storage_life++;
	for (uint32_t i = 0; i < FAKE_MAX_FILES; i++) {
		f->disks[i].node = 0;
		f->disks[i].promised = 0;
	}
}

int fake_storage_serve(struct fake *f, uint32_t from, uint16_t opcode, const void *body,
		       uint32_t body_len, const uint8_t *data, uint32_t data_len, void *reply)
{
	int ret = -ENOSYS;

	mutex_lock(&f->disk_lock);
	if (opcode == f->again_opcode) {
		f->again_opcode = 0;
		fake_storage_again(f);
	}
	if (opcode == MS_CLAIM)
		ret = serve_claim(f, from, body, body_len, reply);
	else if (opcode == MS_WRITE)
		ret = serve_write(f, from, body, body_len, data, data_len, reply);
	else if (opcode == MS_CHANGE)
		ret = serve_change(f, from, body, body_len, reply);
	else if (opcode == MS_RELEASE)
		ret = serve_release(f, from, body, body_len);
	else if (opcode == MS_RESERVE)
		ret = serve_reserve(f, from, body, body_len, reply);
	else if (opcode == MS_DECLARE)
		ret = serve_declare(f, body, body_len);
	mutex_unlock(&f->disk_lock);
	return ret;
}
