/* SPDX-License-Identifier: MIT */
/*
 * Names of AF_UNIX sockets: paths, abstract ones, ones that the system chooses.
 *
 * Flow:	a path names an inode of type socket; the table is keyed by that inode, which the
 *		name holds. An abstract name is keyed by its bytes and the type of its socket.
 *		Other processors know abstract names, and paths on storage nodes, by a hash of the
 *		bytes or of what identifies the inode.
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
#define PATH_KEY   1         /* in front of what stands for a path: no abstract name begins so */
#define AUTO_NAMES 0x100000u /* five hexadecimal digits */

static struct spinlock table_lock = SPINLOCK_INIT("unix names", RANK_SOCKET_TABLE);
static struct hlist_head buckets[BUCKETS] __guarded_by(&table_lock);
static struct hlist_head keys[BUCKETS] __guarded_by(&table_lock);
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

static struct hlist_head *bucket_of_key(const uint8_t key[16]) __must_hold(&table_lock)
{
	uint64_t h;

	memcpy(&h, key, sizeof(h));
	return &keys[h % BUCKETS];
}

static void insert_locked(struct unix_name *n) __must_hold(&table_lock)
{
	assert_spin_held(&table_lock);
	if (n->told)
		hlist_add_head(&n->by_key, bucket_of_key(n->key));
	hlist_add_head(&n->node, bucket_of(n->inode, n->path, n->len, n->owner->type));
	__atomic_store_n(&unix_of(n->owner)->name, n, __ATOMIC_RELEASE);
}

static struct unix_name *name_make(struct socket *s, struct kmem_account *account, const char *path,
				   uint32_t len)
{
	struct unix_name *n = kmem_alloc(account, sizeof(*n) + len + 1);

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

void unix_copy_far(struct socket *s, struct sock_addr *addr)
{
	const struct unix_far *far = unix_of(s)->far;

	addr->len = (uint32_t)UNIX_PATH_OFFSET + far->len;
	addr->family = AF_UNIX;
	memcpy(addr->un.path, far->path, far->len);
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

/* The name of a datagram socket's peer elsewhere. False: it has none. */
static bool copy_far_peer(struct socket *s, struct sock_addr *addr)
{
	const struct unix_far_peer *far;

	spin_lock(&s->lock);
	far = unix_of(s)->far_peer;
	if (far) {
		addr->len = (uint32_t)UNIX_PATH_OFFSET + far->name.len;
		addr->family = AF_UNIX;
		memcpy(addr->un.path, far->name.path, far->name.len);
	}
	spin_unlock(&s->lock);
	return far;
}

int unix_getname(struct socket *s, bool peer, struct sock_addr *addr)
{
	struct socket *of = s;

	if (peer && READ_ONCE(s->state) == SOCKET_CONNECTED && unix_of(s)->far) {
		unix_copy_far(s, addr);
		return 0;
	}
	if (peer && copy_far_peer(s, addr))
		return 0;
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
	n = name_make(s, kmem_account_of(s), from->path, from->len);
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

uint8_t unix_name_kind(uint32_t type)
{
	switch (type) {
	case SOCK_STREAM:
		return NAME_UNIX_STREAM;
	case SOCK_SEQPACKET:
		return NAME_UNIX_SEQPACKET;
	default:
		return NAME_UNIX_DGRAM;
	}
}

/* The file as all processors see it. -ECONNREFUSED: the others do not. */
static int key_of_inode(struct inode *inode, uint8_t key[16])
{
	struct file_attr attr;
	uint64_t id[3];

	if (inode_getattr(inode, &attr) || !attr.file.node)
		return -ECONNREFUSED;
	id[0] = PATH_KEY;
	id[1] = attr.file.ino;
	id[2] = (uint64_t)attr.file.node << 32 | attr.file.gen;
	names_hash(id, sizeof(id), key);
	return 0;
}

/* Names are the vNode's: another processor's socket may have it, or connect to it. */
static int tell(struct unix_name *n, uint8_t flags)
{
	const struct socket *s = n->owner;
	struct vnode_name name = {
		.kind = unix_name_kind(s->type),
		.flags = flags,
		.uid = s->uid,
	};

	memcpy(name.addr, n->key, sizeof(name.addr));
	return names_set(&n->told, &name, kmem_current());
}

/* A datagram socket that has a name takes what is sent to it. */
static uint8_t first_flags(const struct socket *s)
{
	return s->type == SOCK_DGRAM ? NAME_LISTENING : 0;
}

/* A bind() has failed. */
static void name_give_up(struct unix_name *n)
{
	names_drop(n->told);
	name_free(n);
}

static int bind_path(struct socket *s, const struct sock_addr *addr)
{
	char path[LINUX_UNIX_PATH + 1];
	struct unix_name *n;
	int err;

	path_of(addr, path);
	n = name_make(s, kmem_current(), path, (uint32_t)strlen(path) + 1);
	if (!n)
		return -ENOMEM;
	err = path_make_node(path, S_IFSOCK | 0777, &n->inode);
	if (err == -EEXIST)
		err = -EADDRINUSE;
	if (!err && !key_of_inode(n->inode, n->key))
		err = tell(n, first_flags(s));
	if (!err)
		err = enter(n);
	if (err)
		name_give_up(n);
	return err;
}

static int bind_abstract(struct socket *s, const struct sock_addr *addr)
{
	struct unix_name *n =
		name_make(s, kmem_current(), addr->un.path, addr->len - (uint32_t)UNIX_PATH_OFFSET);
	int err;

	if (!n)
		return -ENOMEM;
	names_hash(n->path, n->len, n->key);
	err = tell(n, first_flags(s));
	if (!err)
		err = enter(n);
	if (err)
		name_give_up(n);
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

int unix_tell_listening(struct socket *s)
{
	struct unix_name *n = __atomic_load_n(&unix_of(s)->name, __ATOMIC_ACQUIRE);

	return n->told ? tell(n, NAME_LISTENING) : 0;
}

void unix_unhash(struct socket *s)
{
	struct unix_name *n = unix_of(s)->name;

	if (!n)
		return;
	spin_lock(&table_lock);
	if (!hlist_unhashed(&n->node))
		hlist_del(&n->node);
	if (!hlist_unhashed(&n->by_key))
		hlist_del(&n->by_key);
	spin_unlock(&table_lock);
	names_drop(n->told);
	n->told = NULL;
}

void unix_destroy(struct socket *s)
{
	name_free(unix_of(s)->name);
	kmem_free(unix_of(s)->far);
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

/* The inode of a path that the caller may write to. */
static int walk_to(const struct sock_addr *addr, struct walk_result *res)
{
	char path[LINUX_UNIX_PATH + 1];
	struct fs_cred cred;

	path_of(addr, path);
	process_cred(&cred);
	return fs_state_walk(fs_current(), &cred, path, 0, 2, res);
}

static struct socket *find_path(const struct sock_addr *addr, uint32_t type)
{
	struct walk_result res;
	struct socket *s;
	int err = walk_to(addr, &res);

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

int unix_key(const struct sock_addr *addr, uint8_t key[16])
{
	struct walk_result res;
	int err;

	if (!addr->un.path[0]) {
		names_hash(addr->un.path, addr->len - (uint32_t)UNIX_PATH_OFFSET, key);
		return 0;
	}
	err = walk_to(addr, &res);
	if (err)
		return err;
	err = res.at.inode->mode == S_IFSOCK ? key_of_inode(res.at.inode, key) : -ECONNREFUSED;
	walk_result_put(&res);
	return err;
}

struct socket *unix_find_key(const uint8_t key[16], uint32_t type)
{
	struct socket *s = NULL;
	struct unix_name *n;

	spin_lock(&table_lock);
	hlist_for_each_entry(n, bucket_of_key(key), by_key) {
		if (n->owner->type == type && !memcmp(n->key, key, sizeof(n->key))) {
			s = n->owner;
			socket_get(s);
			break;
		}
	}
	spin_unlock(&table_lock);
	return s;
}
