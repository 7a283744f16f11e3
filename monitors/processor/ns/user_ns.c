/* SPDX-License-Identifier: MIT */
/*
 * User namespaces: making, capabilities in them, and the writing of their maps. See user_ns.h.
 */
#include "user_ns.h"

#include <abi/sched.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/process/cred.h>
#include <processor/vfs/path.h>

#define MAP_TEXT_MAX 4095u /* bytes: less than a page, as Linux */

static struct spinlock maps_lock = SPINLOCK_INIT("user.maps", RANK_SPIN_FS);

/* --- capabilities --------------------------------------------------------------------- */

static uint32_t level_of(const struct user_ns *ns)
{
	return ns ? ns->level : 0;
}

bool user_ns_within(const struct user_ns *ns, const struct user_ns *outer)
{
	while (level_of(ns) > level_of(outer))
		ns = user_ns_parent(ns);
	return ns == outer;
}

/*
 * As Linux's cap_capable(): what the credentials have counts in their own namespace. The user that
 * has made a namespace, and who has the capability around it, have all of them in it.
 */
bool cred_capable(const struct cred *c, const struct user_ns *ns, unsigned int cap)
{
	for (;;) {
		if (ns == c->user_ns)
			return c->effective & CAP_BIT(cap);
		if (level_of(ns) <= level_of(c->user_ns))
			return false;
		if (user_ns_parent(ns) == c->user_ns && ns->uid == c->euid)
			return true;
		ns = user_ns_parent(ns);
	}
}

bool ns_capable(const struct user_ns *ns, unsigned int cap)
{
	return cred_capable(cred_current(), ns, cap);
}

static bool files_are_mapped(const struct user_ns *ns, uint32_t uid, uint32_t gid)
{
	return id_is_mapped(ns, ID_USER, uid) && id_is_mapped(ns, ID_GROUP, gid);
}

bool ns_capable_file(unsigned int cap, uint32_t uid, uint32_t gid)
{
	const struct cred *c = cred_current();

	return c->user_ns && (c->effective & CAP_BIT(cap)) &&
	       files_are_mapped(c->user_ns, uid, gid);
}

/* fs_cred.over: CAP_DAC_OVERRIDE, which the credentials have in their namespace. */
bool user_ns_overrides(const struct fs_cred *cred, uint32_t uid, uint32_t gid)
{
	return files_are_mapped(cred->ns, uid, gid);
}

/* --- making --------------------------------------------------------------------------- */

static void user_free(struct ns *ns)
{
	struct user_ns *u = user_ns_of(ns);

	for (size_t i = 0; i < ID_KINDS; i++)
		kmem_free(u->maps[i]);
	ns_exit(ns);
	kmem_free(u);
}

/* Below the namespace of @c. ERR_PTR(-ENOSPC, -ENOMEM) */
static struct user_ns *create(const struct cred *c)
{
	struct user_ns *parent = c->user_ns, *u;
	int err;

	if (level_of(parent) >= USER_NS_LEVELS)
		return ERR_PTR(-ENOSPC);
	u = kmem_alloc(kmem_current(), sizeof(*u));
	if (!u)
		return ERR_PTR(-ENOMEM);
	err = ns_init(&u->ns, NS_USER, parent, user_free);
	if (err) {
		kmem_free(u);
		return ERR_PTR(err);
	}
	u->level = level_of(parent) + 1;
	u->uid = c->euid;
	u->gid = c->egid;
	u->parent_setfcap = c->effective & CAP_BIT(CAP_SETFCAP);
	u->no_setgroups = parent && READ_ONCE(parent->no_setgroups);
	return u;
}

struct cred *cred_in_user_ns(struct user_ns *ns)
{
	struct cred *n = cred_copy(cred_current());
	struct user_ns *old;

	if (!n)
		return NULL;
	old = n->user_ns;
	n->user_ns = user_ns_get(ns);
	user_ns_put(old);
	n->securebits = 0;
	n->inheritable = n->ambient = 0;
	n->permitted = n->effective = n->bounding = CAP_ALL;
	return n;
}

struct cred *cred_in_new_user_ns(void)
{
	const struct cred *c = cred_current();
	struct user_ns *u;
	struct cred *n;

	/* Its root could be left by a chroot() inside of the namespace. */
	if (!fs_state_at_top(fs_current()))
		return ERR_PTR(-EPERM);
	if (!files_are_mapped(c->user_ns, c->euid, c->egid))
		return ERR_PTR(-EPERM);
	u = create(c);
	if (IS_ERR(u))
		return ERR_PTR(PTR_ERR(u));
	n = cred_in_user_ns(u);
	user_ns_put(u);
	return n ? n : ERR_PTR(-ENOMEM);
}

/* --- maps ------------------------------------------------------------------------------ */

bool user_ns_may_setgroups(const struct user_ns *ns)
{
	if (!ns)
		return true;
	return __atomic_load_n(&ns->maps[ID_GROUP], __ATOMIC_ACQUIRE) &&
	       !READ_ONCE(ns->no_setgroups);
}

/* user_namespaces(7), "User and group ID mappings": what an unprivileged opener may map. */
static bool maps_itself(const struct user_ns *ns, enum id_kind kind, const struct cred *opener,
			const struct id_map *map)
{
	uint32_t id;

	if (map->nr != 1 || map->ranges[0].count != 1 || ns->uid != opener->euid)
		return false;
	id = id_in_from(user_ns_parent(ns), kind, map->ranges[0].outside);
	if (id == ID_NONE)
		return false;
	if (kind == ID_USER)
		return id == opener->euid;
	return id == opener->egid && READ_ONCE(ns->no_setgroups);
}

/* Both the opener and the writer may set such ids in the namespace around. */
static bool may_map_all(const struct user_ns *ns, enum id_kind kind, const struct cred *opener)
{
	const unsigned int cap = kind == ID_USER ? CAP_SETUID : CAP_SETGID;
	const struct user_ns *parent = user_ns_parent(ns);

	return ns_capable(parent, cap) && cred_capable(opener, parent, cap);
}

/* User 0 of the namespace around: with it come file capabilities that are good there. */
static bool may_map_root(const struct user_ns *ns, const struct cred *opener,
			 const struct id_map *map)
{
	bool maps_root = false;

	for (uint32_t i = 0; i < map->nr; i++)
		maps_root |= map->ranges[i].outside == 0;
	if (!maps_root)
		return true;
	if (opener->user_ns == ns)
		return ns->parent_setfcap;
	return cred_capable(opener, user_ns_parent(ns), CAP_SETFCAP);
}

static int check_map(const struct user_ns *ns, enum id_kind kind, const struct cred *opener,
		     const struct id_map *map)
{
	if (kind == ID_PROJECT)
		return 0; /* anybody that may write at all; projects have no rights */
	if (kind == ID_USER && !may_map_root(ns, opener, map))
		return -EPERM;
	return maps_itself(ns, kind, opener, map) || may_map_all(ns, kind, opener) ? 0 : -EPERM;
}

/* From ids of the namespace around to kernel ids. -EPERM: they are not mapped there. */
static int to_kernel_ids(const struct user_ns *ns, enum id_kind kind, struct id_map *map)
{
	const struct user_ns *parent = user_ns_parent(ns);
	const struct id_map *around =
		parent ? __atomic_load_n(&parent->maps[kind], __ATOMIC_ACQUIRE) : NULL;

	if (parent && !around)
		return -EPERM;
	for (uint32_t i = 0; i < map->nr; i++) {
		struct id_range *r = &map->ranges[i];

		r->outside = id_map_range_out(around, r->outside, r->count);
		if (r->outside == ID_NONE)
			return -EPERM;
	}
	return 0;
}

static int install_map(struct user_ns *ns, enum id_kind kind, const struct cred *opener,
		       struct id_map *map)
{
	int err;

	spin_lock(&maps_lock);
	err = ns->maps[kind] ? -EPERM : check_map(ns, kind, opener, map);
	if (!err)
		err = to_kernel_ids(ns, kind, map);
	if (!err)
		__atomic_store_n(&ns->maps[kind], map, __ATOMIC_RELEASE);
	spin_unlock(&maps_lock);
	return err;
}

int user_ns_write_map(struct user_ns *ns, enum id_kind kind, const struct cred *opener,
		      const char *text, size_t len)
{
	struct id_range *ranges;
	struct id_map *map = NULL;
	uint32_t nr;
	int err;

	if (len > MAP_TEXT_MAX)
		return -EINVAL;
	if (!ns || READ_ONCE(ns->maps[kind]))
		return -EPERM;
	if (opener->user_ns != ns && opener->user_ns != user_ns_parent(ns))
		return -EPERM;
	if (kind != ID_PROJECT && !cred_capable(opener, ns, CAP_SYS_ADMIN))
		return -EPERM;
	ranges = kmalloc(ID_RANGES_MAX * sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	err = id_map_parse(text, len, ranges, &nr);
	if (!err) {
		map = kmem_alloc(kmem_current(), sizeof(*map) + nr * sizeof(*ranges));
		err = map ? 0 : -ENOMEM;
	}
	if (!err) {
		map->nr = nr;
		memcpy(map->ranges, ranges, nr * sizeof(*ranges));
		err = install_map(ns, kind, opener, map);
	}
	kfree(ranges);
	if (err)
		kmem_free(map);
	return err;
}

/* "allow" or "deny", and a newline perhaps. */
static int parse_setgroups(const char *text, size_t len, bool *deny)
{
	const size_t word = len && text[len - 1] == '\n' ? len - 1 : len;

	*deny = word == 4 && !memcmp(text, "deny", 4);
	return *deny || (word == 5 && !memcmp(text, "allow", 5)) ? 0 : -EINVAL;
}

int user_ns_write_setgroups(struct user_ns *ns, const char *text, size_t len)
{
	bool deny;
	int err = parse_setgroups(text, len, &deny);

	if (err)
		return err;
	if (!ns)
		return deny ? -EPERM : 0; /* its groups have always been set */
	spin_lock(&maps_lock);
	if (!deny && ns->no_setgroups)
		err = -EPERM;
	else if (deny && ns->maps[ID_GROUP])
		err = -EPERM; /* groups may have been left by now */
	else if (deny)
		WRITE_ONCE(ns->no_setgroups, true);
	spin_unlock(&maps_lock);
	return err;
}
