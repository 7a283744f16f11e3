/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: services for files that change: MS_CLAIM, MS_WRITE, MS_CHANGE, MS_RELEASE.
 *
 * Flow:	check the claim, act by the file system's operations, answer the file's state.
 * Failure:	a request whose claim is not the sender's is -ESTALE before any effect. MS_WRITE may
 *		be done twice; MS_CHANGE is found by its id if it was done.
 */
#include <abi/fcntl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "storage.h"

COUNTER(storage_changes_again, "storage.file_changes_again",
	"changes of contents that were done before this node was started again");
COUNTER(storage_writes, "storage.writes", "requests that wrote pages of files");
COUNTER(storage_write_bytes, "storage.write_bytes", "bytes of files that were written");
COUNTER(storage_syncs, "storage.syncs", "... that waited for the disk");

static void tell_state(const struct storage *st, struct fs_inode *in, uint64_t epoch, uint32_t node,
		       struct ms_file_state *out)
{
	struct proto_attr attr;
	struct fs_stat stat;

	fs_inode_stat(in, &stat);
	storage_attr(st, in, 0, &attr); /* the state has no handle */
	*out = (struct ms_file_state){
		.epoch = epoch,
		.size = attr.size,
		.version = attr.version,
		.mtime_s = attr.mtime_s,
		.mtime_ns = attr.mtime_ns,
		.node = node,
		.max_size = stat.max_size,
	};
}

/* Whose change it is tells the connection, not the request: none speaks for another node. */
static struct fs_change change_of(const struct storage_peer *who, uint64_t seq, int64_t mtime_s,
				  uint32_t mtime_ns)
{
	return (struct fs_change){
		.client = seq ? (uint64_t)who->node << 32 | who->incarn : 0,
		.seq = seq,
		.now = { .sec = mtime_s, .nsec = mtime_ns },
	};
}

int storage_claim(struct storage *st, const struct storage_peer *who,
		  const struct ms_claim_req *req, struct ms_file_state *out)
{
	struct fs_inode *in = storage_file_get(st, &req->file);
	uint64_t epoch = 0;
	uint32_t node = 0;
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = fs_is_read_only(st->fs) ? -EROFS : 0;
	/* Another node may have it, of which this life does not know yet. */
	if (!err && !req->epoch)
		err = grace_wait(&st->grace);
	/* Or may have had it since, and changed it. */
	else if (!err && req->epoch >> 32 != st->incarn && grace_is_over(&st->grace))
		err = -ENOLCK;
	if (!err)
		err = claim_take(&st->claims, &req->file, who, &epoch, &node);
	/* The one before had promises, and left. */
	if (!err && node == who->node && !req->epoch)
		storage_promise_end(st, who, &req->file, epoch);
	if (!err && node == who->node)
		tell_state(st, in, epoch, node, out);
	else
		*out = (struct ms_file_state){ .node = node };
	fs_inode_put(in);
	return err;
}

int storage_declare_claims(struct storage *st, const struct storage_peer *who,
			   const struct ms_declare_req *req)
{
	return req->incarn == st->incarn ? grace_declare(&st->grace, who) : -ESTALE;
}

/* Pages, or only the size and the time. */
static int write_in(struct fs_inode *in, const struct storage_peer *who,
		    const struct ms_write_req *req, void *const *pages)
{
	struct fs_change ch = change_of(who, req->seq, req->mtime_s, req->mtime_ns);
	const uint64_t off = req->pgoff << PAGE_SHIFT;
	struct fs_attr attr = { .mask = FS_SET_WRITTEN };
	struct fs_stat stat;
	int err;

	/* MS_RESERVE has looked at the rights; the map may need one block more. */
	ch.privileged = true;
	if (req->nr_pages) {
		const uint64_t len = MIN((uint64_t)req->nr_pages << PAGE_SHIFT, req->size - off);

		err = fs_write_pages(in, off, len, pages, req->size, &ch);
		counter_inc(&storage_writes);
		counter_add(&storage_write_bytes, err ? 0 : len);
		return err;
	}
	fs_inode_stat(in, &stat);
	if (req->size > stat.size) {
		attr.mask |= FS_SET_SIZE;
		attr.size = req->size;
	} else if (fs_time_is_same(stat.mtime, ch.now)) {
		return 0;
	}
	return fs_setattr(in, &attr, &ch);
}

int storage_write(struct storage *st, const struct storage_peer *who,
		  const struct ms_write_req *req, void *const *pages, struct ms_file_state *out)
{
	struct fs_inode *in = storage_file_get(st, &req->file);
	struct claim *claim;
	int err;

	ASSERT(req->nr_pages <= MS_WRITE_MAX_PAGES);
	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = claim_begin(&st->claims, &req->file, who, req->epoch, &claim);
	if (err)
		goto out_put;
	err = write_in(in, who, req, pages);
	if (!err && (req->flags & MS_WRITE_SYNC))
		counter_inc(&storage_syncs);
	/* The version, by which the claim is known again after a restart, is no data. */
	if (!err && ((req->flags & MS_WRITE_SYNC) || st->stable))
		err = fs_fsync(in, (req->flags & MS_WRITE_DATASYNC) && !st->stable);
	if (!err)
		tell_state(st, in, req->epoch, who->node, out);
	storage_claim_end(st, claim);
out_put:
	fs_inode_put(in);
	return err;
}

/* The mode of fallocate(2) that @op is; negative: it is none. */
static int fallocate_mode(uint32_t op)
{
	switch (op) {
	case PROTO_FILE_PUNCH:
		return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	case PROTO_FILE_ZERO:
		return FALLOC_FL_ZERO_RANGE;
	case PROTO_FILE_ZERO_KEEP:
		return FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
	case PROTO_FILE_ALLOCATE:
		return 0;
	case PROTO_FILE_ALLOCATE_KEEP:
		return FALLOC_FL_KEEP_SIZE;
	case PROTO_FILE_COLLAPSE:
		return FALLOC_FL_COLLAPSE_RANGE;
	default:
		return -EOPNOTSUPP;
	}
}

static int change_in(struct storage *st, struct fs_inode *in, const struct storage_peer *who,
		     const struct ms_change_req *req)
{
	struct fs_change ch = change_of(who, req->seq, req->mtime_s, req->mtime_ns);
	const struct fs_attr attr = { .mask = FS_SET_SIZE | FS_SET_MTIME,
				      .size = req->off,
				      .mtime = ch.now };
	struct fs_done done;
	int mode;

	ch.privileged = req->flags & MS_RESERVE_PRIVILEGED;
	ch.kept = req->keep;
	/* It was done before we were started again. */
	if (ch.client && !fs_change_find(st->fs, ch.client, ch.seq, &done)) {
		counter_inc(&storage_changes_again);
		return 0;
	}
	if (req->op == PROTO_FILE_TRUNCATE)
		return fs_setattr(in, &attr, &ch);
	mode = fallocate_mode(req->op);
	return mode < 0 ? mode : fs_fallocate(in, (uint32_t)mode, req->off, req->len, &ch);
}

/* *@pos: the first byte from req->off on that is data, or a hole. -ENXIO: there is none. */
static int seek_in(struct fs_inode *in, const struct ms_change_req *req, uint64_t *pos)
{
	const int64_t at =
		fs_seek(in, req->off, req->op == PROTO_FILE_SEEK_DATA ? SEEK_DATA : SEEK_HOLE);

	*pos = at < 0 ? 0 : (uint64_t)at;
	return at < 0 ? (int)at : 0;
}

int storage_file_change(struct storage *st, const struct storage_peer *who,
			const struct ms_change_req *req, struct ms_file_state *out)
{
	const bool seek = req->op == PROTO_FILE_SEEK_DATA || req->op == PROTO_FILE_SEEK_HOLE;
	struct fs_inode *in = storage_file_get(st, &req->file);
	struct claim *claim;
	uint64_t pos = 0;
	int err;

	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = claim_begin(&st->claims, &req->file, who, req->epoch, &claim);
	if (err)
		goto out_put;
	err = seek ? seek_in(in, req, &pos) : change_in(st, in, who, req);
	if (!err && !seek && st->stable)
		err = fs_fsync(in, false);
	if (!err && !seek && st->stable && st->committed)
		st->committed();
	if (!err) {
		tell_state(st, in, req->epoch, who->node, out);
		out->pos = MIN(pos, out->size);
	}
	storage_claim_end(st, claim);
out_put:
	fs_inode_put(in);
	return err;
}
