/* SPDX-License-Identifier: MIT */
/*
 * Credentials, and the calls that read and change them.
 *
 * Flow:	a call copies its task's set, changes the copy by Linux's rules, and installs it.
 *		Only the task itself changes its set, so it reads it without a lock.
 * Locking:	process.sig_lock for the copy that others look at (kill, prlimit).
 * Limits:	a task belongs to at most CRED_GROUPS_MAX supplementary groups; there are no
 *		set-user-id programs.
 */
#include "cred.h"

#include <abi/prctl.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

#include "process_private.h"

/* --- sets ------------------------------------------------------------------------------ */

struct cred *cred_create(uint32_t uid, uint32_t gid)
{
	struct cred *c = kmem_alloc(kmem_current(), sizeof(*c));

	if (!c)
		return NULL;
	refcount_set(&c->refs, 1);
	c->uid = c->euid = c->suid = c->fsuid = uid;
	c->gid = c->egid = c->sgid = c->fsgid = gid;
	c->bounding = CAP_ALL;
	if (uid == 0)
		c->permitted = c->effective = CAP_ALL;
	return c;
}

struct cred *cred_copy(const struct cred *from)
{
	struct cred *c = kmem_alloc(kmem_current(), sizeof(*c));

	if (!c)
		return NULL;
	*c = *from;
	refcount_set(&c->refs, 1);
	(void)user_ns_get(c->user_ns);
	return c;
}

/* The count is the only part that ever changes. */
static refcount_t *refs_of(const struct cred *c)
{
	return (refcount_t *)(uintptr_t)&c->refs;
}

const struct cred *cred_get(const struct cred *c)
{
	refcount_inc(refs_of(c));
	return c;
}

void cred_put(const struct cred *c)
{
	struct user_ns *ns = c->user_ns;

	if (!refcount_dec_and_test(refs_of(c)))
		return;
	kmem_free(c);
	user_ns_put(ns);
}

void cred_to_fs(const struct cred *c, struct fs_cred *out)
{
	out->uid = c->fsuid;
	out->gid = c->fsgid;
	out->nr_groups = c->nr_groups;
	out->groups = c->groups;
	out->plain = c->user_ns;
	out->over =
		c->user_ns && (c->effective & CAP_BIT(CAP_DAC_OVERRIDE)) ? user_ns_overrides : NULL;
	out->ns = c->user_ns;
}

void process_cred(struct fs_cred *cred)
{
	cred_to_fs(cred_current(), cred);
}

bool capable(unsigned int cap)
{
	return ns_capable(NULL, cap);
}

/* User 0 of the namespace of @c; ID_NONE: it has none. */
static uint32_t root_of(const struct cred *c)
{
	return id_in_from(c->user_ns, ID_USER, 0);
}

static bool is_root(const struct cred *c, uint32_t uid)
{
	return uid == root_of(c);
}

static bool subset(uint64_t a, uint64_t of)
{
	return (a & ~of) == 0;
}

static bool is_all(const struct cred *c, uint32_t uid, uint32_t gid)
{
	return uid == c->uid && uid == c->euid && uid == c->suid && gid == c->gid &&
	       gid == c->egid && gid == c->sgid;
}

/*
 * As ptrace_may_access() of Linux: the same ids all over and no capabilities that the caller lacks,
 * or the right to trace in its namespace; one that is not dumpable, in that in which it began.
 */
static bool may_look_locked(const struct process *p, const struct cred *c, bool by_fs_ids)
	__must_hold(&p->sig_lock)
{
	const struct cred *to = p->cred;
	const uint64_t caps = by_fs_ids ? c->effective : c->permitted;
	bool same;

	assert_spin_held(&p->sig_lock);
	if (!to)
		return false;
	same = by_fs_ids ? is_all(to, c->fsuid, c->fsgid) : is_all(to, c->uid, c->gid);
	if (!same && !cred_capable(c, to->user_ns, CAP_SYS_PTRACE))
		return false;
	if (READ_ONCE(p->undumpable) && !cred_capable(c, p->look_ns, CAP_SYS_PTRACE))
		return false;
	return (c->user_ns == to->user_ns && subset(to->permitted, caps)) ||
	       cred_capable(c, to->user_ns, CAP_SYS_PTRACE);
}

bool process_may_look_as(struct process *p, bool by_fs_ids)
{
	bool may;

	if (p == process_current())
		return true;
	spin_lock(&p->sig_lock);
	may = may_look_locked(p, cred_current(), by_fs_ids);
	spin_unlock(&p->sig_lock);
	return may;
}

bool process_may_look(struct process *p)
{
	return process_may_look_as(p, false);
}

struct cred *cred_exec(const struct cred *c)
{
	struct cred *n = cred_copy(c);

	if (!n)
		return NULL;
	n->suid = n->fsuid = n->euid;
	n->sgid = n->fsgid = n->egid;
	n->securebits &= ~SECBIT_KEEP_CAPS;
	/*
	 * capabilities(7), "Transformation of capabilities during execve()", for files without
	 * capabilities.
	 */
	if (!(n->securebits & SECBIT_NOROOT) && (is_root(n, n->uid) || is_root(n, n->euid))) {
		n->permitted = n->inheritable | n->bounding;
		n->effective = is_root(n, n->euid) ? n->permitted : n->ambient;
	} else {
		n->permitted = n->ambient;
		n->effective = n->ambient;
	}
	return n;
}

/* --- changing --------------------------------------------------------------------------- */

/* More than @old has, in its namespace or, as whose maker it has everything, in one below? */
static bool gains_caps(const struct cred *n, const struct cred *old)
{
	const struct user_ns *ns = n->user_ns;

	if (ns == old->user_ns)
		return !subset(n->permitted, old->permitted);
	for (; ns; ns = user_ns_parent(ns)) {
		if (user_ns_parent(ns) == old->user_ns && ns->uid == old->euid)
			return false;
	}
	return true;
}

/* The process has in memory what belongs to the ids, or the rights, that it had. */
static bool needs_hiding(const struct cred *n, const struct cred *old)
{
	return n->euid != old->euid || n->egid != old->egid || n->fsuid != old->fsuid ||
	       n->fsgid != old->fsgid || gains_caps(n, old);
}

/*
 * The calling task's new set; takes over the reference. As on Linux, others cannot look into a
 * process that has changed what it acts as, and its parent's death is no longer told. Its tasks
 * are counted for another user if its real one has changed: going over that user's RLIMIT_NPROC
 * shows at the next exec.
 */
int cred_install(struct cred *n)
{
	struct task *t = task_current();
	struct process *p = t->process;
	struct vnode *v = p->vnode;
	const struct cred *old = t->cred, *shown = NULL;
	const uint64_t nproc = process_rlimit(RLIMIT_NPROC);
	int err = 0;

	spin_lock(&v->lock);
	if (n->uid != t->user) {
		err = user_charge_locked(v, n->uid);
		if (!err) {
			user_uncharge_locked(v, t->user);
			t->user = n->uid;
			t->nproc_exceeded = n->uid && user_tasks_locked(v, n->uid) > nproc;
		}
	}
	if (!err) {
		/* Before the set is seen, so that nobody finds the new ids and may look. */
		if (needs_hiding(n, old)) {
			WRITE_ONCE(p->undumpable, true);
			p->pdeath_signal = 0;
		}
		t->cred = n;
		if (t->tid == p->pid) {
			spin_lock(&p->sig_lock);
			shown = p->cred;
			p->cred = cred_get(n);
			spin_unlock(&p->sig_lock);
			WRITE_ONCE(p->uid, n->uid);
		}
	}
	spin_unlock(&v->lock);
	cred_put(err ? n : old);
	if (shown)
		cred_put(shown);
	return err ? -EAGAIN : 0;
}

/*
 * The effect of a change of user ids on capabilities: capabilities(7), "Effect of user ID changes".
 */
static void fix_caps(struct cred *n, const struct cred *old)
{
	const uint32_t root = root_of(old);
	const bool was_root = old->uid == root || old->euid == root || old->suid == root;
	const bool stays_root = n->uid == root || n->euid == root || n->suid == root;

	if (n->securebits & SECBIT_NO_SETUID_FIXUP)
		return;
	if (was_root && !stays_root) {
		if (!(n->securebits & SECBIT_KEEP_CAPS))
			n->permitted = n->effective = 0;
		n->ambient = 0;
	}
	if (old->euid == root && n->euid != root)
		n->effective = 0;
	else if (old->euid != root && n->euid == root)
		n->effective = n->permitted;
}

/*
 * CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, MKNOD, LINUX_IMMUTABLE, MAC_OVERRIDE: they
 * go with fsuid.
 */
#define FS_CAPS 0x10800021full

#define KEEP UINT32_MAX /* -1: as it is */
static_assert(KEEP == ID_NONE, "what is kept is not mapped");

/* Kernel id @id of what the caller has given as @given. */
static bool is_unmapped(uint32_t given, uint32_t id)
{
	return given != KEEP && id == KEEP;
}

static bool one_of_uids(const struct cred *c, uint32_t uid, bool with_saved)
{
	return uid == c->uid || uid == c->euid || (with_saved && uid == c->suid);
}

static bool one_of_gids(const struct cred *c, uint32_t gid, bool with_saved)
{
	return gid == c->gid || gid == c->egid || (with_saved && gid == c->sgid);
}

static long finish_uids(struct cred *n)
{
	n->fsuid = n->euid;
	fix_caps(n, cred_current());
	return cred_install(n);
}

static long finish_gids(struct cred *n)
{
	n->fsgid = n->egid;
	return cred_install(n);
}

/* setuid(uid) */
long sys_setuid(const struct syscall_args *args)
{
	const uint32_t uid = uid_in((uint32_t)args->a[0]);
	const struct cred *c = cred_current();
	struct cred *n;

	if (uid == KEEP)
		return -EINVAL;
	if (!capable_here(CAP_SETUID) && uid != c->uid && uid != c->suid)
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	if (capable_here(CAP_SETUID))
		n->uid = n->suid = uid;
	n->euid = uid;
	return finish_uids(n);
}

/* setgid(gid) */
long sys_setgid(const struct syscall_args *args)
{
	const uint32_t gid = gid_in((uint32_t)args->a[0]);
	const struct cred *c = cred_current();
	struct cred *n;

	if (gid == KEEP)
		return -EINVAL;
	if (!capable_here(CAP_SETGID) && gid != c->gid && gid != c->sgid)
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	if (capable_here(CAP_SETGID))
		n->gid = n->sgid = gid;
	n->egid = gid;
	return finish_gids(n);
}

/* setreuid(uid, euid) */
long sys_setreuid(const struct syscall_args *args)
{
	const uint32_t uid = uid_in((uint32_t)args->a[0]);
	const uint32_t euid = uid_in((uint32_t)args->a[1]);
	const struct cred *c = cred_current();
	struct cred *n;

	if (is_unmapped((uint32_t)args->a[0], uid) || is_unmapped((uint32_t)args->a[1], euid))
		return -EINVAL;
	if (!capable_here(CAP_SETUID) && ((uid != KEEP && !one_of_uids(c, uid, false)) ||
					  (euid != KEEP && !one_of_uids(c, euid, true))))
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	if (uid != KEEP)
		n->uid = uid;
	if (euid != KEEP)
		n->euid = euid;
	if (uid != KEEP || (euid != KEEP && euid != c->uid))
		n->suid = n->euid;
	return finish_uids(n);
}

/* setregid(gid, egid) */
long sys_setregid(const struct syscall_args *args)
{
	const uint32_t gid = gid_in((uint32_t)args->a[0]);
	const uint32_t egid = gid_in((uint32_t)args->a[1]);
	const struct cred *c = cred_current();
	struct cred *n;

	if (is_unmapped((uint32_t)args->a[0], gid) || is_unmapped((uint32_t)args->a[1], egid))
		return -EINVAL;
	if (!capable_here(CAP_SETGID) && ((gid != KEEP && !one_of_gids(c, gid, false)) ||
					  (egid != KEEP && !one_of_gids(c, egid, true))))
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	if (gid != KEEP)
		n->gid = gid;
	if (egid != KEEP)
		n->egid = egid;
	if (gid != KEEP || (egid != KEEP && egid != c->gid))
		n->sgid = n->egid;
	return finish_gids(n);
}

/* setresuid(uid, euid, suid) */
long sys_setresuid(const struct syscall_args *args)
{
	const struct cred *c = cred_current();
	uint32_t id[3];
	struct cred *n;

	for (size_t i = 0; i < 3; i++) {
		id[i] = uid_in((uint32_t)args->a[i]);
		if (is_unmapped((uint32_t)args->a[i], id[i]))
			return -EINVAL;
	}
	for (size_t i = 0; i < 3; i++) {
		if (id[i] != KEEP && !one_of_uids(c, id[i], true) && !capable_here(CAP_SETUID))
			return -EPERM;
	}
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	n->uid = id[0] == KEEP ? c->uid : id[0];
	n->euid = id[1] == KEEP ? c->euid : id[1];
	n->suid = id[2] == KEEP ? c->suid : id[2];
	return finish_uids(n);
}

/* setresgid(gid, egid, sgid) */
long sys_setresgid(const struct syscall_args *args)
{
	const struct cred *c = cred_current();
	uint32_t id[3];
	struct cred *n;

	for (size_t i = 0; i < 3; i++) {
		id[i] = gid_in((uint32_t)args->a[i]);
		if (is_unmapped((uint32_t)args->a[i], id[i]))
			return -EINVAL;
	}
	for (size_t i = 0; i < 3; i++) {
		if (id[i] != KEEP && !one_of_gids(c, id[i], true) && !capable_here(CAP_SETGID))
			return -EPERM;
	}
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	n->gid = id[0] == KEEP ? c->gid : id[0];
	n->egid = id[1] == KEEP ? c->egid : id[1];
	n->sgid = id[2] == KEEP ? c->sgid : id[2];
	return finish_gids(n);
}

/* setfsuid(uid): the one of before, whether it worked or not */
long sys_setfsuid(const struct syscall_args *args)
{
	const uint32_t uid = uid_in((uint32_t)args->a[0]);
	const struct cred *c = cred_current();
	const uint32_t old = c->fsuid;
	struct cred *n;

	if (uid == KEEP || (!one_of_uids(c, uid, true) && uid != old && !capable_here(CAP_SETUID)))
		return uid_out(old);
	n = cred_copy(c);
	if (!n)
		return uid_out(old);
	n->fsuid = uid;
	if (is_root(c, old) && !is_root(c, uid))
		n->effective &= ~FS_CAPS;
	else if (!is_root(c, old) && is_root(c, uid))
		n->effective |= n->permitted & FS_CAPS;
	if (cred_install(n))
		return uid_out(old); /* as on Linux, the result does not tell */
	return uid_out(old);
}

/* setfsgid(gid): the one of before, whether it worked or not */
long sys_setfsgid(const struct syscall_args *args)
{
	const uint32_t gid = gid_in((uint32_t)args->a[0]);
	const struct cred *c = cred_current();
	const uint32_t old = c->fsgid;
	struct cred *n;

	if (gid == KEEP || (!one_of_gids(c, gid, true) && gid != old && !capable_here(CAP_SETGID)))
		return gid_out(old);
	n = cred_copy(c);
	if (!n)
		return gid_out(old);
	n->fsgid = gid;
	if (cred_install(n))
		return gid_out(old); /* as on Linux, the result does not tell */
	return gid_out(old);
}

#define LINUX_GROUPS_MAX 65536u

/* From ids of the caller's to kernel ids. */
static int groups_in(struct cred *n)
{
	for (uint32_t i = 0; i < n->nr_groups; i++) {
		n->groups[i] = gid_in(n->groups[i]);
		if (n->groups[i] == ID_NONE)
			return -EINVAL;
	}
	return 0;
}

/* setgroups(size, list) */
long sys_setgroups(const struct syscall_args *args)
{
	const uint32_t size = (uint32_t)args->a[0];
	struct cred *n;
	int err;

	if (!capable_here(CAP_SETGID) || !user_ns_may_setgroups(user_ns_current()))
		return -EPERM;
	if (size > LINUX_GROUPS_MAX)
		return -EINVAL;
	n = cred_copy(cred_current());
	if (!n)
		return -ENOMEM;
	n->nr_groups = size;
	if (size && copy_from_user(n->groups, (const void __user *)args->a[1],
				   MIN(size, (uint32_t)CRED_GROUPS_MAX) * sizeof(n->groups[0]))) {
		cred_put(n);
		return -EFAULT;
	}
	err = size > CRED_GROUPS_MAX ? -EINVAL : groups_in(n);
	if (err) {
		cred_put(n);
		return err;
	}
	return cred_install(n);
}

/* --- reading ------------------------------------------------------------------------------ */

/* getuid() */
long sys_getuid(const struct syscall_args *args)
{
	return uid_out(cred_current()->uid);
}

/* geteuid() */
long sys_geteuid(const struct syscall_args *args)
{
	return uid_out(cred_current()->euid);
}

/* getgid() */
long sys_getgid(const struct syscall_args *args)
{
	return gid_out(cred_current()->gid);
}

/* getegid() */
long sys_getegid(const struct syscall_args *args)
{
	return gid_out(cred_current()->egid);
}

static long put_three(const struct syscall_args *args, uint32_t a, uint32_t b, uint32_t c)
{
	if (put_user_u32(a, (void __user *)args->a[0]) ||
	    put_user_u32(b, (void __user *)args->a[1]) ||
	    put_user_u32(c, (void __user *)args->a[2]))
		return -EFAULT;
	return 0;
}

/* getresuid(uid, euid, suid) */
long sys_getresuid(const struct syscall_args *args)
{
	const struct cred *c = cred_current();

	return put_three(args, uid_out(c->uid), uid_out(c->euid), uid_out(c->suid));
}

/* getresgid(gid, egid, sgid) */
long sys_getresgid(const struct syscall_args *args)
{
	const struct cred *c = cred_current();

	return put_three(args, gid_out(c->gid), gid_out(c->egid), gid_out(c->sgid));
}

/* getgroups(size, list) */
long sys_getgroups(const struct syscall_args *args)
{
	const struct cred *c = cred_current();
	const int size = (int)args->a[0];
	uint32_t list[CRED_GROUPS_MAX];

	if (size < 0 || (size && (uint32_t)size < c->nr_groups))
		return -EINVAL;
	for (uint32_t i = 0; i < c->nr_groups; i++)
		list[i] = gid_out(c->groups[i]);
	if (size && copy_to_user((void __user *)args->a[1], list, c->nr_groups * sizeof(list[0])))
		return -EFAULT;
	return c->nr_groups;
}

/* --- capabilities --------------------------------------------------------------------------- */

/* How many struct linux_cap_data the version has; an unknown version is replaced by ours. */
static int cap_version(uint64_t uheader, struct linux_cap_header *h, unsigned int *nr)
{
	if (copy_from_user(h, (const void __user *)uheader, sizeof(*h)))
		return -EFAULT;
	switch (h->version) {
	case _LINUX_CAPABILITY_VERSION_1:
		*nr = 1;
		return 0;
	case _LINUX_CAPABILITY_VERSION_2:
	case _LINUX_CAPABILITY_VERSION_3:
		*nr = 2;
		return 0;
	default:
		return put_user_u32(_LINUX_CAPABILITY_VERSION_3, (void __user *)uheader) ? -EFAULT
											 : -EINVAL;
	}
}

/* capget(header, data) */
long sys_capget(const struct syscall_args *args)
{
	struct linux_cap_data d[2] = { 0 };
	const struct cred *c;
	struct linux_cap_header h;
	unsigned int nr;
	struct process *p;
	int err = cap_version(args->a[0], &h, &nr);

	/* Without @data it is a question for the version. */
	if (err)
		return err == -EINVAL && !args->a[1] ? 0 : err;
	if (h.pid < 0)
		return -EINVAL;
	p = h.pid ? process_find(pid_from_vnr((uint32_t)h.pid)) : NULL;
	if (h.pid && !p && (uint32_t)h.pid != task_vtid(task_current()))
		return -ESRCH;
	c = cred_current();
	if (p) {
		spin_lock(&p->sig_lock);
		c = cred_get(p->cred);
		spin_unlock(&p->sig_lock);
	}
	for (unsigned int i = 0; i < nr; i++) {
		d[i].effective = (uint32_t)(c->effective >> (32 * i));
		d[i].permitted = (uint32_t)(c->permitted >> (32 * i));
		d[i].inheritable = (uint32_t)(c->inheritable >> (32 * i));
	}
	if (p) {
		cred_put(c);
		process_put(p);
	}
	if (args->a[1] && copy_to_user((void __user *)args->a[1], d, nr * sizeof(d[0])))
		return -EFAULT;
	return 0;
}

/* capset(header, data) */
long sys_capset(const struct syscall_args *args)
{
	const struct cred *c = cred_current();
	struct linux_cap_data d[2] = { 0 };
	uint64_t eff = 0, perm = 0, inh = 0;
	struct linux_cap_header h;
	unsigned int nr;
	struct cred *n;
	int err = cap_version(args->a[0], &h, &nr);

	if (err)
		return err;
	if (h.pid && (uint32_t)h.pid != task_vtid(task_current()))
		return -EPERM;
	if (copy_from_user(d, (const void __user *)args->a[1], nr * sizeof(d[0])))
		return -EFAULT;
	for (unsigned int i = 0; i < nr; i++) {
		eff |= (uint64_t)d[i].effective << (32 * i);
		perm |= (uint64_t)d[i].permitted << (32 * i);
		inh |= (uint64_t)d[i].inheritable << (32 * i);
	}
	eff &= CAP_ALL;
	perm &= CAP_ALL;
	inh &= CAP_ALL;
	if ((!capable_here(CAP_SETPCAP) && !subset(inh, c->inheritable | c->permitted)) ||
	    !subset(inh, c->inheritable | c->bounding) || !subset(perm, c->permitted) ||
	    !subset(eff, perm))
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	n->effective = eff;
	n->permitted = perm;
	n->inheritable = inh;
	n->ambient &= perm & inh;
	return cred_install(n);
}
