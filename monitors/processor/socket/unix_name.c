/* SPDX-License-Identifier: MIT */
/*
 * Names of AF_UNIX sockets: paths, abstract ones, ones that the system chooses.
 *
 * Flow:	a path names an inode of type socket; the table is keyed by that inode, which the
 *		name holds. An abstract name is keyed by its bytes and the type of its socket.
 * Invariants:	a name is in the table from bind() until its socket is released.
 */
#include "unix_private.h"

#include <abi/stat.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/client/names.h>
#include <processor/process/process.h>
#include <processor/vfs/path.h>

#define BUCKETS    256u
#define AUTO_NAMES 0x100000u /* five hexadecimal digits */

static struct spinlock table_lock = SPINLOCK_INIT("unix names", RANK_SOCKET_TABLE);
static struct hlist_head buckets[BUCKETS] __guarded_by(&table_lock);
static uint32_t last_auto __guarded_by(&table_lock);

/* --- the table ----------------------------------------------------------------------- */

static struct hlist_head *bucket_of(const struct inode *inode, const char *path, uint32_t len,
				    uint32_t type) __must_hold(&table_lock)
{
	uint64_t h = type;

	if (inode)
		return &buckets[hash64((uint64_t)(uintptr_t)inode) % BUCKETS];
	for (uint32_t i = 0; i < len; i++)
		h = hash64(h ^ (uint8_t)path[i]);
	return &buckets[h % BUCKETS];
}

static struct unix_name *find_locked(const struct inode *inode, const char *path, uint32_t len,
				     uint32_t type) __must_hold(&table_lock)
{
	struct unix_name *n;

	assert_spin_held(&table_lock);
	hlist_for_each_entry(n, bucket_of(inode, path, len, type), node) {
		if (inode ? n->inode == inode
			  : !n->inode && n->owner->type == type && n->len == len &&
				    !memcmp(n->path, path, len))
			return n;
	}
	return NULL;
}

static void insert_locked(struct unix_name *n) __must_hold(&table_lock)
{
	assert_spin_held(&table_lock);
	hlist_add_head(&n->node, bucket_of(n->inode, n->path, n->len, n->owner->type));
	__atomic_store_n(&unix_of(n->owner)->name, n, __ATOMIC_RELEASE);
}

static struct unix_name *name_make(struct socket *s, const char *path, uint32_t len)
{
	struct unix_name *n = kmem_alloc(kmem_current(), sizeof(*n) + len + 1);

	if (!n)
		return NULL;
	n->owner = s;
	n->len = len;
	memcpy(n->path, path, len);
	return n;
}

static void name_free(struct unix_name *n)
{
	if (!n)
		return;
	inode_put(n->inode);
	kmem_free(n);
}

/* --- addresses ----------------------------------------------------------------------- */

int unix_check_addr(const struct sock_addr *addr)
{
	if (addr->len <= UNIX_PATH_OFFSET || addr->len > sizeof(addr->un) ||
	    addr->family != AF_UNIX)
		return -EINVAL;
	return 0;
}

/* The path of a name that is none of the abstract ones, terminated. */
static void path_of(const struct sock_addr *addr, char path[LINUX_UNIX_PATH + 1])
{
	const uint32_t len = addr->len - (uint32_t)UNIX_PATH_OFFSET;

	memcpy(path, addr->un.path, len);
	path[len] = '\0';
}

void unix_copy_name(struct socket *s, struct sock_addr *addr)
{
	const struct unix_name *n = __atomic_load_n(&unix_of(s)->name, __ATOMIC_ACQUIRE);

	addr->len = (uint32_t)UNIX_PATH_OFFSET;
	addr->family = AF_UNIX;
	if (n) {
		memcpy(addr->un.path, n->path, n->len);
		addr->len += n->len;
	}
}

int unix_getname(struct socket *s, bool peer, struct sock_addr *addr)
{
	struct socket *of = s;

	if (peer) {
		of = socket_peer_get(s);
		if (!of)
			return -ENOTCONN;
	}
	unix_copy_name(of, addr);
	if (peer)
		socket_put(of);
	return 0;
}

int unix_inherit_name(struct socket *s, struct socket *listener)
{
	const struct unix_name *from = __atomic_load_n(&unix_of(listener)->name, __ATOMIC_ACQUIRE);
	struct unix_name *n;

	if (!from)
		return 0;
	n = name_make(s, from->path, from->len);
	if (!n)
		return -ENOMEM;
	unix_of(s)->name = n; /* nobody else knows this socket yet */
	return 0;
}

/* --- binding ------------------------------------------------------------------------- */

/* One call at a time may give @s a name: -EINVAL: it has one. */
static int naming_begin(struct socket *s)
{
	struct unix_socket *u = unix_of(s);
	int err = 0;

	spin_lock(&table_lock);
	if (u->name || u->naming)
		err = -EINVAL;
	else
		u->naming = true;
	spin_unlock(&table_lock);
	return err;
}

static void naming_end(struct socket *s)
{
	spin_lock(&table_lock);
	unix_of(s)->naming = false;
	spin_unlock(&table_lock);
}

/* -EADDRINUSE; takes over @n on success. */
static int enter(struct unix_name *n)
{
	int err = 0;

	spin_lock(&table_lock);
	if (!n->inode && find_locked(NULL, n->path, n->len, n->owner->type))
		err = -EADDRINUSE;
	else
		insert_locked(n);
	spin_unlock(&table_lock);
	return err;
}

static int bind_path(struct socket *s, const struct sock_addr *addr)
{
	char path[LINUX_UNIX_PATH + 1];
	struct unix_name *n;
	int err;

	path_of(addr, path);
	n = name_make(s, path, (uint32_t)strlen(path) + 1);
	if (!n)
		return -ENOMEM;
	err = path_make_node(path, S_IFSOCK | 0777, &n->inode);
	if (err == -EEXIST)
		err = -EADDRINUSE;
	if (!err)
		err = enter(n);
	if (err)
		name_free(n);
	return err;
}

/* Abstract names are the vNode's: another processor's socket may have it. */
static int tell(struct unix_name *n)
{
	const struct socket *s = n->owner;
	struct vnode_name name = {
		.kind = s->type == SOCK_STREAM  ? NAME_UNIX_STREAM
			: s->type == SOCK_DGRAM ? NAME_UNIX_DGRAM
						: NAME_UNIX_SEQPACKET,
		.uid = s->uid,
	};

	names_hash(n->path, n->len, name.addr);
	return names_set(&n->told, &name, kmem_current());
}

static int bind_abstract(struct socket *s, const struct sock_addr *addr)
{
	struct unix_name *n = name_make(s, addr->un.path, addr->len - (uint32_t)UNIX_PATH_OFFSET);
	int err;

	if (!n)
		return -ENOMEM;
	err = tell(n);
	if (!err)
		err = enter(n);
	if (err) {
		names_drop(n->told);
		name_free(n);
	}
	return err;
}

static int bind_auto(struct socket *s)
{
	for (uint32_t i = 0; i < AUTO_NAMES; i++) {
		struct sock_addr addr = { .len = (uint32_t)UNIX_PATH_OFFSET + 6 };
		char digits[8];
		uint32_t nr;
		int err;

		spin_lock(&table_lock);
		nr = last_auto++ % AUTO_NAMES;
		spin_unlock(&table_lock);
		snprintf(digits, sizeof(digits), "%05x", nr);
		memcpy(&addr.un.path[1], digits, 5);
		err = bind_abstract(s, &addr);
		if (err != -EADDRINUSE)
			return err;
	}
	return -ENOSPC;
}

int unix_autobind(struct socket *s)
{
	int err;

	if (__atomic_load_n(&unix_of(s)->name, __ATOMIC_ACQUIRE) || naming_begin(s))
		return 0;
	err = bind_auto(s);
	naming_end(s);
	return err;
}

int unix_bind(struct socket *s, const struct sock_addr *addr)
{
	int err;

	if (addr->len == UNIX_PATH_OFFSET && addr->family == AF_UNIX)
		return unix_autobind(s);
	err = unix_check_addr(addr);
	if (err)
		return err;
	err = naming_begin(s);
	if (err)
		return err;
	err = addr->un.path[0] ? bind_path(s, addr) : bind_abstract(s, addr);
	naming_end(s);
	return err;
}

void unix_unhash(struct socket *s)
{
	struct unix_name *n = unix_of(s)->name;

	if (!n)
		return;
	spin_lock(&table_lock);
	if (!hlist_unhashed(&n->node))
		hlist_del(&n->node);
	spin_unlock(&table_lock);
	names_drop(n->told);
	n->told = NULL;
}

void unix_destroy(struct socket *s)
{
	name_free(unix_of(s)->name);
}

/* --- finding ------------------------------------------------------------------------- */

static struct socket *lookup(const struct inode *inode, const char *path, uint32_t len,
			     uint32_t type)
{
	struct unix_name *n;
	struct socket *s = NULL;

	spin_lock(&table_lock);
	n = find_locked(inode, path, len, type);
	if (n) {
		s = n->owner;
		socket_get(s);
	}
	spin_unlock(&table_lock);
	return s ? s : ERR_PTR(-ECONNREFUSED);
}

static struct socket *find_path(const struct sock_addr *addr, uint32_t type)
{
	char path[LINUX_UNIX_PATH + 1];
	struct walk_result res;
	struct fs_cred cred;
	struct socket *s;
	int err;

	path_of(addr, path);
	process_cred(&cred);
	err = fs_state_walk(fs_current(), &cred, path, 0, 2, &res);
	if (err)
		return ERR_PTR(err);
	s = res.at.inode->mode == S_IFSOCK ? lookup(res.at.inode, NULL, 0, 0)
					   : ERR_PTR(-ECONNREFUSED);
	walk_result_put(&res);
	if (!IS_ERR(s) && s->type != type) {
		socket_put(s);
		s = ERR_PTR(-EPROTOTYPE);
	}
	return s;
}

struct socket *unix_find(const struct sock_addr *addr, uint32_t type)
{
	if (addr->un.path[0])
		return find_path(addr, type);
	return lookup(NULL, addr->un.path, addr->len - (uint32_t)UNIX_PATH_OFFSET, type);
}
