/* SPDX-License-Identifier: MIT */
/*
 * System V IPC: /proc/sysvipc, and its limits in /proc/sys/kernel, which can be set.
 */
#include <kernel/panic.h>
#include <lib/string.h>
#include <processor/ipc/sysv.h>

#include "proc_private.h"

#define LL(x) ((long long)(x))

/* --- /proc/sysvipc --------------------------------------------------------------------------- */

static void put_name(struct text *t, const struct linux_ipc64_perm *perm, uint32_t index)
{
	text_printf(t, "%10d %10d  %4o", perm->key, sysv_id(perm, index), perm->mode);
}

static void put_owners(struct text *t, const struct linux_ipc64_perm *perm)
{
	text_printf(t, " %5u %5u %5u %5u", perm->uid, perm->gid, perm->cuid, perm->cgid);
}

static SHOW(show_shm)
{
	struct linux_shmid64_ds ds;
	uint64_t pages;

	text_puts(t,
		  "       key      shmid perms                  size  cpid  lpid nattch   uid   gid"
		  "  cuid  cgid      atime      dtime      ctime                   rss"
		  "                  swap\n");
	for (uint32_t i = 0; shm_next(&i, &ds, &pages); i++) {
		put_name(t, &ds.perm, i);
		text_printf(t, " %21lld %5d %5d  %5lld", LL(ds.segsz), ds.cpid, ds.lpid,
			    LL(ds.nattch));
		put_owners(t, &ds.perm);
		text_printf(t, " %10lld %10lld %10lld %21lld %21d\n", LL(ds.atime), LL(ds.dtime),
			    LL(ds.ctime), LL(pages << PAGE_SHIFT), 0);
	}
	return 0;
}

static SHOW(show_sem)
{
	struct linux_semid64_ds ds;

	text_puts(t, "       key      semid perms      nsems   uid   gid  cuid  cgid      otime"
		     "      ctime\n");
	for (uint32_t i = 0; sem_next(&i, &ds); i++) {
		put_name(t, &ds.perm, i);
		text_printf(t, " %10lld", LL(ds.nsems));
		put_owners(t, &ds.perm);
		text_printf(t, " %10lld %10lld\n", LL(ds.otime), LL(ds.ctime));
	}
	return 0;
}

static SHOW(show_msg)
{
	struct linux_msqid64_ds ds;

	text_puts(t, "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid"
		     "  cuid  cgid      stime      rtime      ctime\n");
	for (uint32_t i = 0; msg_next(&i, &ds); i++) {
		put_name(t, &ds.perm, i);
		text_printf(t, "  %10lld %10lld %5d %5d", LL(ds.cbytes), LL(ds.qnum), ds.lspid,
			    ds.lrpid);
		put_owners(t, &ds.perm);
		text_printf(t, " %10lld %10lld %10lld\n", LL(ds.stime), LL(ds.rtime), LL(ds.ctime));
	}
	return 0;
}

const struct pseudo_node proc_sysvipc_nodes[] = {
	PSEUDO_FILE("msg", 0444, show_msg),
	PSEUDO_FILE("sem", 0444, show_sem),
	PSEUDO_FILE("shm", 0444, show_shm),
	{ 0 },
};

/* --- limits ---------------------------------------------------------------------------------- */

static int store(const char *buf, size_t len, uint64_t max, uint64_t *limit)
{
	uint64_t value;
	const int err = text_number(buf, len, max, &value);

	if (!err)
		WRITE_ONCE(*limit, value);
	return err;
}

#define LIMIT(field, max)                                                                      \
	SHOW(show_##field)                                                                     \
	{                                                                                      \
		text_printf(t, "%llu\n", (unsigned long long)READ_ONCE(sysv_limits()->field)); \
		return 0;                                                                      \
	}                                                                                      \
	int store_##field(const struct pseudo_subject *s, const char *buf, size_t len)         \
	{                                                                                      \
		return store(buf, len, (max), &sysv_limits()->field);                          \
	}

#define NEXT_ID(kind)                                                                           \
	SHOW(show_##kind##_next_id)                                                             \
	{                                                                                       \
		text_printf(t, "%d\n", READ_ONCE(sysv_next_ids()->kind));                       \
		return 0;                                                                       \
	}                                                                                       \
	int store_##kind##_next_id(const struct pseudo_subject *s, const char *buf, size_t len) \
	{                                                                                       \
		uint64_t id;                                                                    \
		const int err = text_number(buf, len, INT32_MAX, &id);                          \
                                                                                                \
		if (!err)                                                                       \
			WRITE_ONCE(sysv_next_ids()->kind, (int32_t)id);                         \
		return err;                                                                     \
	}

NEXT_ID(shm)
NEXT_ID(sem)
NEXT_ID(msg)
LIMIT(shmmax, UINT64_MAX)
LIMIT(shmall, UINT64_MAX)
LIMIT(shmmni, SYSV_IDS_MAX)
LIMIT(msgmax, INT32_MAX)
LIMIT(msgmnb, INT32_MAX)
LIMIT(msgmni, SYSV_IDS_MAX)

SHOW(show_sem_limits)
{
	text_printf(t, "%llu\t%llu\t%llu\t%llu\n",
		    (unsigned long long)READ_ONCE(sysv_limits()->semmsl),
		    (unsigned long long)READ_ONCE(sysv_limits()->semmns),
		    (unsigned long long)READ_ONCE(sysv_limits()->semopm),
		    (unsigned long long)READ_ONCE(sysv_limits()->semmni));
	return 0;
}

/* Up to four numbers; what is not written stays. */
int store_sem_limits(const struct pseudo_subject *s, const char *buf, size_t len)
{
	static const uint64_t max[] = { 65536, INT32_MAX, 65536, SYSV_IDS_MAX };
	uint64_t *const limits[] = { &sysv_limits()->semmsl, &sysv_limits()->semmns,
				     &sysv_limits()->semopm, &sysv_limits()->semmni };
	uint64_t values[ARRAY_SIZE(max)];
	size_t nr = 0;

	for (size_t at = 0; at < len;) {
		size_t end = at;

		while (end < len && buf[end] != ' ' && buf[end] != '\t' && buf[end] != '\n')
			end++;
		if (end > at) {
			int err = -EINVAL;

			if (nr < ARRAY_SIZE(max))
				err = text_number(buf + at, end - at, max[nr], &values[nr]);
			if (err)
				return err;
			nr++;
		}
		at = end + 1;
	}
	ASSERT(nr <= ARRAY_SIZE(max));
	for (size_t i = 0; i < nr; i++)
		WRITE_ONCE(*limits[i], values[i]);
	return nr ? 0 : -EINVAL;
}
