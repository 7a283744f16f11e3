/* SPDX-License-Identifier: MIT */
/*
 * UTS namespaces: the names of the system that uname() tells, and that can be set.
 *
 * Locking:	names_lock (RANK_SPIN_MONITOR) guards the names of all namespaces, for a copy of two
 *		short strings at a time.
 */
#include <abi/sysinfo.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "ns.h"
#include "user_ns.h"

#define FIRST_NODE   "tessera"
#define FIRST_DOMAIN "(none)"

struct uts_ns {
	struct ns ns;
	struct uts_names names; /* names_lock */
};

static struct spinlock names_lock = SPINLOCK_INIT("uts.names", RANK_SPIN_MONITOR);

static struct uts_ns first = {
	.ns = NS_FIRST_INIT(NS_UTS, 0xeffffffeu),
	.names = { .node = FIRST_NODE, .domain = FIRST_DOMAIN },
};
struct ns *const uts_first = &first.ns;

static struct uts_ns *uts_of(struct ns *ns)
{
	ASSERT(ns->kind == NS_UTS);
	return container_of(ns, struct uts_ns, ns);
}

static void uts_free(struct ns *ns)
{
	ns_exit(ns);
	kmem_free(uts_of(ns));
}

struct ns *uts_copy(struct ns *from, struct user_ns *owner)
{
	struct uts_ns *u = kmem_alloc(kmem_current(), sizeof(*u));
	const int err = u ? ns_init(&u->ns, NS_UTS, owner, uts_free) : -ENOMEM;

	if (err) {
		kmem_free(u);
		return ERR_PTR(err);
	}
	spin_lock(&names_lock);
	u->names = uts_of(from)->names;
	spin_unlock(&names_lock);
	return &u->ns;
}

void uts_names(struct uts_names *out)
{
	const struct uts_ns *u = uts_of(ns_current(NS_UTS));

	spin_lock(&names_lock);
	*out = u->names;
	spin_unlock(&names_lock);
}

static void set(char to[UTS_NAME_MAX + 1], const char *name, size_t len)
{
	ASSERT(len <= UTS_NAME_MAX);
	spin_lock(&names_lock);
	memset(to, 0, UTS_NAME_MAX + 1);
	memcpy(to, name, len);
	spin_unlock(&names_lock);
}

void uts_set_node(const char *name, size_t len)
{
	set(uts_of(ns_current(NS_UTS))->names.node, name, len);
}

void uts_set_domain(const char *name, size_t len)
{
	set(uts_of(ns_current(NS_UTS))->names.domain, name, len);
}

/* The name that sethostname() and its kin are given, with NULs behind it. */
static int get_name(const struct syscall_args *args, char name[UTS_NAME_MAX + 1])
{
	const int len = (int)args->a[1];

	if (!ns_capable(ns_current(NS_UTS)->owner, CAP_SYS_ADMIN))
		return -EPERM;
	if (len < 0 || len > (int)UTS_NAME_MAX)
		return -EINVAL;
	return copy_from_user(name, (const void __user *)args->a[0], (size_t)len) ? -EFAULT : 0;
}

/* sethostname(name, len) */
long sys_sethostname(const struct syscall_args *args)
{
	char name[UTS_NAME_MAX + 1] = "";
	const int err = get_name(args, name);

	if (!err)
		uts_set_node(name, (size_t)args->a[1] & UINT32_MAX);
	return err;
}

/* setdomainname(name, len) */
long sys_setdomainname(const struct syscall_args *args)
{
	char name[UTS_NAME_MAX + 1] = "";
	const int err = get_name(args, name);

	if (!err)
		uts_set_domain(name, (size_t)args->a[1] & UINT32_MAX);
	return err;
}
