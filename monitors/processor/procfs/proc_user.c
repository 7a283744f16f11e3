/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/uid_map, gid_map, projid_map and setgroups: which ids a user namespace has.
 *
 * Flow:	an open file is about the namespace that the process was in then, and whatever is
 *		written counts as its opener's doing: a privileged program that is made to write to
 *		it gives nothing away.
 * See:		<processor/ns/user_ns.h>, user_namespaces(7)
 */
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "proc_private.h"

#define TEXT_MAX 4096u

enum user_file {
	UID_MAP,
	GID_MAP,
	PROJID_MAP,
	SETGROUPS
};

struct open_map {
	const struct cred *opener; /* counted */
	struct user_ns *ns;        /* counted */
	enum user_file file;
};

static const struct file_ops proc_user_ops;

static int open_file(struct file *f, enum user_file file)
{
	struct proc_ref ref;
	struct open_map *m;
	struct ns *ns;
	int err = proc_get(pseudo_subject_of_file(f), &ref);

	if (err)
		return err;
	ns = ns_of_process(ref.process, 0, NS_USER);
	proc_put(&ref);
	if (IS_ERR(ns))
		return -EINVAL;
	m = kmem_alloc(kmem_current(), sizeof(*m));
	if (!m ||
	    (file == SETGROUPS && file_writable(f) && !ns_capable(user_ns_of(ns), CAP_SYS_ADMIN))) {
		err = m ? -EACCES : -ENOMEM;
		kmem_free(m);
		ns_put(ns);
		return err;
	}
	*m = (struct open_map){ cred_get(cred_current()), user_ns_of(ns), file };
	f->private = m;
	f->ops = &proc_user_ops;
	return 0;
}

int proc_open_uid_map(struct file *f)
{
	return open_file(f, UID_MAP);
}

int proc_open_gid_map(struct file *f)
{
	return open_file(f, GID_MAP);
}

int proc_open_projid_map(struct file *f)
{
	return open_file(f, PROJID_MAP);
}

int proc_open_setgroups(struct file *f)
{
	return open_file(f, SETGROUPS);
}

static enum id_kind kind_of(const struct open_map *m)
{
	return m->file == UID_MAP ? ID_USER : m->file == GID_MAP ? ID_GROUP : ID_PROJECT;
}

/* The ids outside are the opener's, of the namespace around if it is in this one. */
static void put_map(struct text *t, const struct open_map *m)
{
	const struct user_ns *to =
		m->opener->user_ns == m->ns ? user_ns_parent(m->ns) : m->opener->user_ns;
	const enum id_kind kind = kind_of(m);
	const struct id_map *map;

	if (!m->ns) {
		text_printf(t, "%10u %10u %10u\n", 0u, id_in_of(to, kind, 0), UINT32_MAX);
		return;
	}
	map = __atomic_load_n(&m->ns->maps[kind], __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; map && i < map->nr; i++) {
		const struct id_range *r = &map->ranges[i];

		text_printf(t, "%10u %10u %10u\n", r->inside, id_in_of(to, kind, r->outside),
			    r->count);
	}
}

static ssize_t user_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	const struct open_map *m = f->private;
	struct text t = { 0 };
	size_t want = 0, moved = 0;
	ssize_t ret;

	if (m->file != SETGROUPS)
		put_map(&t, m);
	else
		text_puts(&t, m->ns && READ_ONCE(m->ns->no_setgroups) ? "deny\n" : "allow\n");
	if (!t.err && *pos < t.len) {
		want = (size_t)MIN((uint64_t)(t.len - *pos), uio->left);
		moved = uio_put(uio, t.buf + *pos, want);
		*pos += moved;
	}
	ret = t.err ? t.err : moved || !want ? (ssize_t)moved : -EFAULT;
	text_free(&t);
	return ret;
}

/* In one piece, from the beginning. */
static ssize_t user_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	const struct open_map *m = f->private;
	const size_t len = (size_t)uio->left;
	char *buf;
	int err;

	if (*pos || len >= TEXT_MAX)
		return -EINVAL;
	buf = kmalloc(len + 1);
	if (!buf)
		return -ENOMEM;
	err = uio_fetch(uio, buf, len) == len ? 0 : -EFAULT;
	if (!err && m->file == SETGROUPS)
		err = user_ns_write_setgroups(m->ns, buf, len);
	else if (!err)
		err = user_ns_write_map(m->ns, kind_of(m), m->opener, buf, len);
	kfree(buf);
	if (err)
		return err;
	*pos += len;
	return (ssize_t)len;
}

static int user_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static void user_release(struct file *f)
{
	struct open_map *m = f->private;

	if (!m)
		return;
	cred_put(m->opener);
	user_ns_put(m->ns);
	kmem_free(m);
}

static const struct file_ops proc_user_ops = {
	.name = "ids of a user namespace",
	.read = user_read,
	.write = user_write,
	.stat = user_stat,
	.release = user_release,
	.seekable = true,
};
