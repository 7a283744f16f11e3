/* SPDX-License-Identifier: MIT */
/*
 * ext4: multi-mount protection: one node at a time writes a disk that several can reach.
 *
 * Flow:	ext4_mmp_claim() before the first write of a mount: read the mark; if it is not
 *		clean, wait and see whether its owner renews it; write a number of our own, wait
 *		again, and see whether another node has done the same.  A thread renews the mark
 *		from then on; ext4_mmp_release() writes "clean".
 * Context:	threads; sleeps.  A claim takes as long as the disk's check interval asks for: the
 *		protocol has nothing but time, as the nodes have only the disk in common.
 * Locking:	lock (RANK_FS_MMP) for the mark and its buffer, over the disk's requests.
 * Ordering:	each renewal reads the mark first.  A mark is ours for one check interval after
 *		that read, and others wait for longer than that; so a node that was stopped looks
 *		at the mark before it goes on (ext4_mmp_confirm(), from ext4_begin(), commits
 *		and checkpoints), and finds its successor there.
 * Failure:	a mark of another node is lost for good: the next handle, commit or checkpoint
 *		aborts the file system.  So does one that cannot be read or written while it is
 *		ours.  After an abort the mark is left alone, as all else on the disk.
 * Limits:	a request that is with the device when the interval ends may come late.
 */
#define PR_FMT "ext4: "

#include <drivers/blkdev.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "journal_priv.h"

#define MIN_CHECK 5u   /* seconds, as others have it */
#define MAX_RENEW 300u /* seconds: the largest interval that tools set */

/* It outlives the struct ext4_fs that a recovery replaces, so it has what it needs of that. */
struct ext4_mmp {
	struct blkdev *bd;                             /* const */
	uint64_t sector;                               /* const: of the mark's block */
	uint32_t block_size;                           /* const */
	uint32_t csum_seed;                            /* const */
	bool has_csum;                                 /* const */
	uint64_t second_ns;                            /* const: of the protocol */
	uint32_t check;                                /* const: seconds that a mark is good for */
	uint32_t renew;                                /* const: seconds between renewals */
	char owner[64];                                /* const: our name in the mark */
	struct mutex lock;                             /* RANK_FS_MMP */
	uint8_t *block __guarded_by(&lock);            /* the mark's block */
	struct ext4_mmp_disk last __guarded_by(&lock); /* the mark that we wrote last */
	bool lost __guarded_by(&lock);                 /* another node's mark was seen */
	uint64_t good_until_ns;                        /* atomic: then look before a write */
	struct thread *thread;                         /* mount's and unmount's */
	struct waitqueue wait;
	bool stop; /* atomic */
};

static struct ext4_mmp_disk *mark_of(struct ext4_mmp *m) __must_hold(&m->lock)
{
	return (void *)m->block;
}

static bool mark_is_right(uint32_t csum_seed, bool has_csum, const struct ext4_mmp_disk *mark)
{
	const uint32_t csum = crc32c(csum_seed, mark, offsetof(struct ext4_mmp_disk, checksum));

	return le32_to_cpu(mark->magic) == EXT4_MMP_MAGIC &&
	       (!has_csum || le32_to_cpu(mark->checksum) == csum);
}

int ext4_mmp_check(struct ext4_fs *fs, const struct ext4_mmp_disk *mark)
{
	if (!mark_is_right(fs->csum_seed, fs->has_csum, mark))
		return ext4_corrupt(fs, "mmp block: bad magic or checksum");
	return 0;
}

static int read_locked(struct ext4_mmp *m) __must_hold(&m->lock)
{
	int err;

	assert_mutex_held(&m->lock);
	err = blk_read(m->bd, m->sector, m->block, m->block_size);
	if (!err && !mark_is_right(m->csum_seed, m->has_csum, mark_of(m)))
		err = -EUCLEAN;
	return err;
}

/* Write number @seq into the mark that was read. */
static int write_locked(struct ext4_mmp *m, uint32_t seq) __must_hold(&m->lock)
{
	struct ext4_mmp_disk *mark = mark_of(m);
	int err;

	assert_mutex_held(&m->lock);
	mark->seq = cpu_to_le32(seq);
	mark->time = cpu_to_le64(time_real_ns() / NSEC_PER_SEC);
	/* One that is clean makes nobody wait longer than the disk's own interval. */
	mark->check_interval =
		cpu_to_le16((uint16_t)(seq == EXT4_MMP_SEQ_CLEAN ? m->renew : m->check));
	memset(mark->nodename, 0, sizeof(mark->nodename));
	strlcpy(mark->nodename, m->owner, sizeof(mark->nodename));
	memset(mark->bdevname, 0, sizeof(mark->bdevname));
	strlcpy(mark->bdevname, m->bd->name, sizeof(mark->bdevname));
	if (m->has_csum)
		mark->checksum = cpu_to_le32(
			crc32c(m->csum_seed, mark, offsetof(struct ext4_mmp_disk, checksum)));
	err = blk_write(m->bd, m->sector, m->block, m->block_size, BLK_FUA);
	if (!err)
		m->last = *mark;
	return err;
}

/* Our mark is good for one interval after @read_ns, when it was seen on the disk. */
static void set_good(struct ext4_mmp *m, uint64_t read_ns)
{
	WRITE_ONCE(m->good_until_ns, read_ns + m->check * m->second_ns);
}

/* The owner's name in the mark, as far as it can be printed. */
static const char *owner_name(const struct ext4_mmp_disk *mark, char *buf, size_t size)
{
	size_t n = 0;

	while (n < size - 1 && n < sizeof(mark->nodename) && mark->nodename[n] > ' ' &&
	       mark->nodename[n] < 0x7f) {
		buf[n] = mark->nodename[n];
		n++;
	}
	buf[n] = '\0';
	return n ? buf : "a node without a name";
}

/* Is the mark on the disk the one that we wrote last?  -EBUSY, -EUCLEAN: no. */
static int look_locked(struct ext4_mmp *m) __must_hold(&m->lock)
{
	char name[65];
	int err;

	assert_mutex_held(&m->lock);
	if (m->lost)
		return -EBUSY;
	err = read_locked(m);
	if (!err && memcmp(mark_of(m), &m->last, sizeof(m->last))) {
		pr_err("%s: %s has the disk now (mmp %#x)\n", m->bd->name,
		       owner_name(mark_of(m), name, sizeof(name)), le32_to_cpu(mark_of(m)->seq));
		err = -EBUSY;
	}
	m->lost = err == -EBUSY || err == -EUCLEAN;
	return err;
}

static int renew(struct ext4_mmp *m)
{
	const uint64_t now = time_now_ns();
	uint32_t seq;
	int err;

	mutex_lock(&m->lock);
	err = look_locked(m);
	if (!err) {
		seq = le32_to_cpu(m->last.seq);
		err = write_locked(m, seq >= EXT4_MMP_SEQ_MAX ? 1 : seq + 1);
	}
	if (!err)
		set_good(m, now);
	else if (m->lost) /* the next write has to look, and finds that */
		WRITE_ONCE(m->good_until_ns, 0);
	mutex_unlock(&m->lock);
	return err;
}

uint64_t ext4_mmp_block(const struct ext4_fs *fs)
{
	return fs->mmp->sector >> (fs->block_bits - BLK_SECTOR_SHIFT);
}

int ext4_mmp_confirm(struct ext4_fs *fs)
{
	struct ext4_mmp *m = fs->mmp;

	if (!m || time_now_ns() < READ_ONCE(m->good_until_ns))
		return 0;
	if (!renew(m))
		return 0;
	ext4_abort(fs, "its mark of use is lost");
	return -EROFS;
}

static void keep_mark(void *arg)
{
	struct ext4_mmp *m = arg;

	while (!wait_event_timeout(&m->wait, READ_ONCE(m->stop),
				   time_after_ns(m->renew * m->second_ns))) {
		const int err = renew(m);

		if (err == -EBUSY || err == -EUCLEAN)
			break;
		/* After another error the next write tries again, and aborts. */
	}
}

void ext4_mmp_leave(struct ext4_fs *fs)
{
	if (fs->mmp)
		WRITE_ONCE(fs->mmp->stop, true); /* the thread sees it before it writes again */
}

/* The mark is that of a node that may be alive: is it renewed? */
static int wait_for_owner_locked(struct ext4_mmp *m, struct ext4_fs *fs, uint64_t wait_ns)
	__must_hold(&m->lock)
{
	const struct ext4_mmp_disk seen = *mark_of(m);
	char name[65];
	int err;

	assert_mutex_held(&m->lock);
	pr_info("%s: marked as in use by %s: waiting for %llu s\n", m->bd->name,
		owner_name(&seen, name, sizeof(name)),
		(unsigned long long)(wait_ns / m->second_ns));
	thread_sleep_ns(wait_ns);
	err = read_locked(m);
	if (!err && memcmp(mark_of(m), &seen, sizeof(seen)))
		err = ext4_refuse(fs, -EBUSY, "in use by %s",
				  owner_name(mark_of(m), name, sizeof(name)));
	return err;
}

static int claim_locked(struct ext4_mmp *m, struct ext4_fs *fs) __must_hold(&m->lock)
{
	const uint64_t wait_ns = MIN(2 * m->check + 1, m->check + 60) * m->second_ns;
	const uint32_t seq = le32_to_cpu(mark_of(m)->seq);
	uint64_t now;
	int err = 0;

	assert_mutex_held(&m->lock);
	if (seq == EXT4_MMP_SEQ_FSCK)
		return ext4_refuse(fs, -EBUSY, "in use by e2fsck, or left so by it");
	if (seq != EXT4_MMP_SEQ_CLEAN)
		err = wait_for_owner_locked(m, fs, wait_ns);
	if (!err)
		err = write_locked(m, 1 + (uint32_t)(random_u64() % EXT4_MMP_SEQ_MAX));
	if (err)
		return err;
	/* Another node may have read the same mark: the one that wrote last has the disk. */
	thread_sleep_ns(wait_ns);
	now = time_now_ns();
	err = look_locked(m);
	if (err == -EBUSY)
		return ext4_refuse(fs, err, "in use by another node");
	set_good(m, now);
	return err;
}

static int read_interval_locked(struct ext4_mmp *m, struct ext4_fs *fs, uint32_t wanted)
	__must_hold(&m->lock)
{
	int err;

	assert_mutex_held(&m->lock);
	err = read_locked(m);
	if (err == -EUCLEAN)
		return ext4_corrupt(fs, "mmp block: bad magic or checksum");
	if (err)
		return ext4_refuse(fs, err, "reading the mmp block failed (%d)", err);
	m->check =
		MAX(MAX(2 * wanted, (uint32_t)le16_to_cpu(mark_of(m)->check_interval)), MIN_CHECK);
	m->renew = MAX(MIN(wanted, m->check / 2), 1u);
	if (m->check > 2 * MAX_RENEW)
		return ext4_corrupt(fs, "mmp interval of %u s", m->check);
	return 0;
}

static struct ext4_mmp *mmp_new(struct ext4_fs *fs, uint64_t block,
				const struct fs_mount_options *opt)
{
	struct ext4_mmp *m = kzalloc(sizeof(*m));

	if (!m)
		return NULL;
	m->bd = fs->bd;
	m->block_size = fs->block_size;
	m->csum_seed = fs->csum_seed;
	m->has_csum = fs->has_csum;
	m->sector = block << (fs->block_bits - BLK_SECTOR_SHIFT);
	m->second_ns = opt->mmp_second_ns ? opt->mmp_second_ns : NSEC_PER_SEC;
	strlcpy(m->owner, opt->owner ? opt->owner : "tessera", sizeof(m->owner));
	mutex_init(&m->lock, "ext4-mmp", RANK_FS_MMP);
	waitqueue_init(&m->wait);
	lock_not_needed(&m->lock, "no other thread is here yet");
	m->block = kmalloc(fs->block_size);
	if (!m->block) {
		kfree(m);
		return NULL;
	}
	return m;
}

static void mmp_free(struct ext4_mmp *m)
{
	lock_not_needed(&m->lock, "no other thread is here any more");
	kfree(m->block);
	kfree(m);
}

int ext4_mmp_claim(struct ext4_fs *fs, const struct ext4_super_disk *sb,
		   const struct fs_mount_options *opt)
{
	const uint64_t block = le64_to_cpu(sb->mmp_block);
	struct ext4_mmp *m;
	int err;

	if (!(fs->incompat & EXT4_INCOMPAT_MMP) || fs->mmp)
		return 0;
	if (!ext4_blocks_ok(fs, block, 1))
		return ext4_corrupt(fs, "mmp block %llu", (unsigned long long)block);
	m = mmp_new(fs, block, opt);
	if (!m)
		return -ENOMEM;
	mutex_lock(&m->lock);
	err = read_interval_locked(m, fs, le16_to_cpu(sb->mmp_interval));
	if (!err)
		err = claim_locked(m, fs);
	mutex_unlock(&m->lock);
	if (!err) {
		m->thread = thread_create("ext4-mmp", keep_mark, m);
		err = IS_ERR(m->thread) ? (int)PTR_ERR(m->thread) : 0;
	}
	if (err)
		mmp_free(m);
	else
		fs->mmp = m;
	return err;
}

void ext4_mmp_release(struct ext4_fs *fs, bool clean)
{
	struct ext4_mmp *m = fs->mmp;
	int err = 0;

	if (!m)
		return;
	WRITE_ONCE(m->stop, true);
	wake_all(&m->wait);
	thread_join(m->thread);
	fs->mmp = NULL;
	mutex_lock(&m->lock);
	if (clean)
		err = look_locked(m);
	if (clean && !err)
		err = write_locked(m, EXT4_MMP_SEQ_CLEAN);
	mutex_unlock(&m->lock);
	if (err)
		pr_err("%s: its mark of use cannot be taken off (%d)\n", fs->bd->name, err);
	mmp_free(m);
}
