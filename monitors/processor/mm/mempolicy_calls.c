/* SPDX-License-Identifier: MIT */
/*
 * Memory policies: mbind, set_mempolicy, get_mempolicy, set_mempolicy_home_node, and where pages
 * are: migrate_pages, move_pages.
 *
 * A processor is one NUMA node, number 0, as /sys says (<processor/procfs/sys_tree.c>): wherever a
 * page lies in the cluster, all CPUs of its process are as near to it. So no policy changes where
 * memory comes from. They are checked, kept and told as a Linux with one node does it, and every
 * page is on node 0 already.
 *
 * Invariants:	a policy that is kept uses node 0, or no node (MPOL_LOCAL).
 * Locking:	the policy of a thread is its own; those of pages are marks (advice.h), map_lock.
 * Limits:	node numbers end at 31, as on a Linux that was made for 32 nodes. A policy of shared
 *		memory is the mapping's, not the object's. A page that was only read has a place,
 *		where move_pages() of Linux says EFAULT.
 * See:		mbind(2), set_mempolicy(2), move_pages(2), numa(7)
 */
#include "mempolicy.h"

#include <abi/mempolicy.h>
#include <arch/uaccess.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "advice.h"
#include "aspace.h"
#include "range.h"

#define NR_MODES    (MPOL_WEIGHTED_INTERLEAVE + 1)
#define MAX_NODES   32u
#define LONG_BITS   64u
#define NODE_0      1u                     /* of a set of nodes: the one there is */
#define USES_NODE   ((mempolicy_t)1 << 16) /* else none: MPOL_LOCAL */
#define NAMED_SHIFT 32                     /* the nodes that the caller has named */
#define NAMES_NODES (MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES)
#define MASK_MAX    (PAGE_SIZE * 8) /* bits of a set of nodes */

static int mode_of(mempolicy_t policy)
{
	return (int)(policy & 0xf);
}

static int flags_of(mempolicy_t policy)
{
	return (int)(policy & MPOL_MODE_FLAGS);
}

/* --- sets of nodes ------------------------------------------------------------------------- */

/* The low @bits of the word at @at; at most LONG_BITS. */
static int get_word(uint64_t at, uint64_t bits, uint64_t *word)
{
	if (copy_from_user(word, (const void __user *)at, sizeof(*word)))
		return -EFAULT;
	if (bits < LONG_BITS)
		*word &= (1ull << bits) - 1;
	return 0;
}

/*
 * The set at @mask, as calls pass it: @max is one more than it has bits. -EINVAL: too many bits, or
 * nodes that cannot be; -EFAULT.
 */
static int get_nodes(uint64_t mask, uint64_t max, uint32_t *nodes)
{
	uint64_t bits = max - 1, word = 0;

	*nodes = 0;
	if (!bits || !mask)
		return 0;
	if (bits > MASK_MAX)
		return -EINVAL;
	/* From the end, as Linux: what is said there decides which error is told. */
	while (bits > LONG_BITS) {
		const uint64_t last = (bits - 1) / LONG_BITS;

		if (get_word(mask + last * sizeof(word), bits - last * LONG_BITS, &word))
			return -EFAULT;
		if (word)
			return -EINVAL;
		bits = last * LONG_BITS;
	}
	if (get_word(mask, bits, &word))
		return -EFAULT;
	if (word >> MAX_NODES)
		return -EINVAL;
	*nodes = (uint32_t)word;
	return 0;
}

/* The same to the caller: one word, and zeroes behind it. */
static int put_nodes(uint64_t mask, uint64_t max, uint32_t nodes)
{
	const uint64_t len = (max - 1 + LONG_BITS - 1) / LONG_BITS * sizeof(uint64_t);
	const uint64_t word = nodes;
	uint64_t more;

	if (len > PAGE_SIZE)
		return -EINVAL;
	more = len > sizeof(word) ? len - sizeof(word) : 0;
	if (more && clear_user_partial((uint8_t __user *)mask + sizeof(word), more))
		return -EFAULT;
	return len && copy_to_user((void __user *)mask, &word, sizeof(word)) ? -EFAULT : 0;
}

/* --- policies ------------------------------------------------------------------------------ */

/* As the calls pass them: the mode has its flags with it. -EINVAL */
static int split_mode(int *mode, int *flags)
{
	*flags = *mode & MPOL_MODE_FLAGS;
	*mode &= ~MPOL_MODE_FLAGS;
	if (*mode < 0 || *mode >= NR_MODES)
		return -EINVAL;
	if ((*flags & MPOL_F_STATIC_NODES) && (*flags & MPOL_F_RELATIVE_NODES))
		return -EINVAL;
	if ((*flags & MPOL_F_NUMA_BALANCING) && *mode != MPOL_BIND && *mode != MPOL_PREFERRED_MANY)
		return -EINVAL;
	return 0;
}

/* -EINVAL: the mode does not go with its flags or nodes, or none of these is there. */
static int make_policy(int mode, int flags, uint32_t nodes, mempolicy_t *policy)
{
	*policy = 0;
	if (mode == MPOL_DEFAULT)
		return nodes ? -EINVAL : 0;
	if (mode == MPOL_PREFERRED && !nodes) {
		if (flags & NAMES_NODES)
			return -EINVAL;
		mode = MPOL_LOCAL;
	} else if (mode == MPOL_LOCAL) {
		if (nodes || (flags & NAMES_NODES))
			return -EINVAL;
	}
	*policy = (mempolicy_t)mode | (mempolicy_t)flags;
	if (mode == MPOL_LOCAL)
		return 0;
	/* Relative to the nodes that are there, each number is the first of one. */
	if (flags & MPOL_F_RELATIVE_NODES ? !nodes : !(nodes & NODE_0))
		return -EINVAL;
	*policy |= USES_NODE;
	if (flags & NAMES_NODES)
		*policy |= (mempolicy_t)nodes << NAMED_SHIFT;
	return 0;
}

static uint32_t nodes_of(mempolicy_t policy)
{
	if (flags_of(policy) & NAMES_NODES)
		return (uint32_t)(policy >> NAMED_SHIFT);
	return policy & USES_NODE ? NODE_0 : 0;
}

static int policy_from(const uint64_t mode_arg, uint64_t mask, uint64_t max, mempolicy_t *policy)
{
	int mode = (int)mode_arg, flags;
	uint32_t nodes;
	int err = split_mode(&mode, &flags);

	if (!err)
		err = get_nodes(mask, max, &nodes);
	return err ? err : make_policy(mode, flags, nodes, policy);
}

void mempolicy_print(mempolicy_t policy, char buf[MEMPOLICY_TEXT])
{
	static const char *const modes[NR_MODES] = {
		"default",
		"prefer",
		"bind",
		"interleave",
		"local",
		"prefer (many)",
		"weighted interleave",
	};
	const int flags = flags_of(policy);
	const char *named = flags & MPOL_F_STATIC_NODES     ? "static"
			    : flags & MPOL_F_RELATIVE_NODES ? "relative"
							    : "";
	const bool balancing = flags & MPOL_F_NUMA_BALANCING;

	snprintf(buf, MEMPOLICY_TEXT, "%s%s%s%s%s%s", modes[mode_of(policy)], flags ? "=" : "",
		 named, balancing && *named ? "|" : "", balancing ? "balancing" : "",
		 policy & USES_NODE ? ":0" : "");
}

/* set_mempolicy(mode, nodes, max) */
long sys_set_mempolicy(const struct syscall_args *args)
{
	mempolicy_t policy;
	const int err = policy_from(args->a[0], args->a[1], args->a[2], &policy);

	if (!err)
		WRITE_ONCE(task_current()->mempolicy, policy);
	return err;
}

/* --- of pages ------------------------------------------------------------------------------ */

/* Whole pages, as the calls take them: the end may wrap to the start, which is no page. -EINVAL */
static int whole_pages(uint64_t start, uint64_t len, vaddr_t *end)
{
	if (start & (PAGE_SIZE - 1))
		return -EINVAL;
	*end = start + ((len + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1));
	return *end < start ? -EINVAL : 0;
}

static bool any_mapping(struct aspace *as, vaddr_t start, vaddr_t end)
{
	struct vma v;

	if (!aspace_next_vma(as, start, end, &v))
		return false;
	vma_release(&v);
	return true;
}

/* Only the default goes over holes, and not if there is nothing else. */
static int bind_locked(struct aspace *as, vaddr_t start, vaddr_t end, mempolicy_t policy)
	__must_hold(&as->map_lock)
{
	const int holes = aspace_check_mapped(as, start, end - start);

	assert_mutex_held(&as->map_lock);
	if (holes && holes != -ENOMEM)
		return holes;
	if (holes && (policy || !any_mapping(as, start, end)))
		return -EFAULT;
	return policy ? advice_set(as, MARK_POLICY, start, end, policy)
		      : advice_clear(as, MARK_POLICY, start, end);
}

static int check_move(uint32_t flags, uint32_t known)
{
	if (flags & ~known)
		return -EINVAL;
	return (flags & MPOL_MF_MOVE_ALL) && !capable(CAP_SYS_NICE) ? -EPERM : 0;
}

/* mbind(start, len, mode, nodes, max, flags) */
long sys_mbind(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	const vaddr_t start = args->a[0];
	int mode = (int)args->a[2], mode_flags;
	mempolicy_t policy;
	uint32_t nodes;
	vaddr_t end;
	int err = split_mode(&mode, &mode_flags);

	if (!err)
		err = get_nodes(args->a[3], args->a[4], &nodes);
	if (!err)
		err = check_move((uint32_t)args->a[5],
				 MPOL_MF_STRICT | MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);
	if (!err)
		err = whole_pages(start, args->a[1], &end);
	if (err || start == end)
		return err;
	err = make_policy(mode, mode_flags, nodes, &policy);
	if (err)
		return err;
	if (end > SPACE_TOP)
		return -EFAULT;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = bind_locked(as, start, end, policy);
	mutex_unlock(&as->map_lock);
	return err;
}

static int home_locked(struct aspace *as, vaddr_t start, vaddr_t end) __must_hold(&as->map_lock)
{
	struct advice_part part;
	int err = -ENOENT;

	assert_mutex_held(&as->map_lock);
	for (vaddr_t at = start; at < end; at = part.end) {
		if (!advice_find(as, MARK_POLICY, at, &part))
			continue;
		if (mode_of(part.value) != MPOL_BIND && mode_of(part.value) != MPOL_PREFERRED_MANY)
			return -EOPNOTSUPP;
		err = 0; /* there is one node, so it is the first that is tried already */
	}
	return err;
}

/* set_mempolicy_home_node(start, len, node, flags) */
long sys_set_mempolicy_home_node(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	const vaddr_t start = args->a[0];
	vaddr_t end;
	int err;

	if ((start & (PAGE_SIZE - 1)) || args->a[3] || args->a[2])
		return -EINVAL;
	err = whole_pages(start, args->a[1], &end);
	if (err || start == end)
		return err;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = home_locked(as, start, MIN(end, SPACE_TOP));
	mutex_unlock(&as->map_lock);
	return err;
}

/* The policy of the page at @addr; 0: none. -EFAULT: it is not mapped; -EINTR. */
static int policy_at(struct aspace *as, vaddr_t addr, mempolicy_t *policy)
{
	struct advice_part part;
	struct vma v;
	int err;

	*policy = 0;
	if (addr >= SPACE_TOP)
		return -EFAULT;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = aspace_vma_at(as, addr, &v);
	if (!err) {
		vma_release(&v);
		if (advice_find(as, MARK_POLICY, addr, &part))
			*policy = part.value;
	}
	mutex_unlock(&as->map_lock);
	return err;
}

/* *value: the mode and its flags, or a node. */
static int look(uint64_t addr, uint64_t flags, uint32_t *value, uint32_t *nodes)
{
	mempolicy_t policy = task_current()->mempolicy;
	struct aspace *as = aspace_current();
	int err = 0;

	*value = 0;
	*nodes = NODE_0;
	if (flags & ~(uint64_t)(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED))
		return -EINVAL;
	if (flags & MPOL_F_MEMS_ALLOWED)
		return flags & (MPOL_F_NODE | MPOL_F_ADDR) ? -EINVAL : 0;
	if (flags & MPOL_F_ADDR)
		err = policy_at(as, addr, &policy);
	else if (addr)
		err = -EINVAL;
	if (err)
		return err;
	*nodes = nodes_of(policy);
	if (!(flags & MPOL_F_NODE)) {
		*value = (uint32_t)(mode_of(policy) | flags_of(policy));
		return 0;
	}
	if (flags & MPOL_F_ADDR) {
		err = aspace_populate(as, addr & ~(vaddr_t)(PAGE_SIZE - 1), PAGE_SIZE,
				      POPULATE_READ);
		return err && err != -EINTR ? -EFAULT : err;
	}
	/* The node that comes next, which only these modes have. */
	return mode_of(policy) == MPOL_INTERLEAVE || mode_of(policy) == MPOL_WEIGHTED_INTERLEAVE
		       ? 0
		       : -EINVAL;
}

/* get_mempolicy(mode, nodes, max, addr, flags) */
long sys_get_mempolicy(const struct syscall_args *args)
{
	const uint64_t to = args->a[0], mask = args->a[1], max = args->a[2];
	uint32_t value, nodes;
	int err;

	if (mask && !max)
		return -EINVAL;
	err = look(args->a[3], args->a[4], &value, &nodes);
	if (err)
		return err;
	if (to && put_user_u32(value, (void __user *)to))
		return -EFAULT;
	return mask ? put_nodes(mask, max, nodes) : 0;
}

/* --- where pages are ----------------------------------------------------------------------- */

/* The space of process @pid, 0 the caller's; referenced. -ESRCH, -EPERM, -EINVAL: it has none. */
static int space_of(int pid, struct aspace **out)
{
	struct task *t = pid > 0 ? task_find(pid_from_vnr((uint32_t)pid)) : NULL;
	int err = 0;

	*out = NULL;
	if (!pid) {
		*out = aspace_current();
		aspace_get(*out);
		return 0;
	}
	if (!t)
		return -ESRCH;
	if (process_may_look(t->process))
		*out = process_aspace(t->process);
	else
		err = -EPERM;
	task_put(t);
	return err || *out ? err : -EINVAL;
}

/* migrate_pages(pid, max, from, to) */
long sys_migrate_pages(const struct syscall_args *args)
{
	uint32_t from, to;
	struct aspace *as;
	int err = get_nodes(args->a[2], args->a[1], &from);

	if (!err)
		err = get_nodes(args->a[3], args->a[1], &to);
	if (!err)
		err = space_of((int)args->a[0], &as);
	if (err)
		return err;
	aspace_put(as);
	if ((to & ~NODE_0) && !capable(CAP_SYS_NICE))
		return -EPERM;
	/* Every page is where it is to go. */
	return to & NODE_0 ? 0 : -EINVAL;
}

/* 0: on the node; -ENOENT: there is none yet; -EFAULT: not mapped; -EINTR. */
static int place_of(struct aspace *as, vaddr_t addr)
{
	mempolicy_t policy;
	const int err = policy_at(as, addr, &policy);

	if (err)
		return err;
	return aspace_is_resident(as, addr & ~(vaddr_t)(PAGE_SIZE - 1)) ? 0 : -ENOENT;
}

/* May pages be moved to the node whose number is at @at? */
static int check_target(uint64_t at)
{
	uint32_t node;

	if (get_user_u32(&node, (const void __user *)at))
		return -EFAULT;
	return node ? -ENODEV : 0;
}

static int move_each(struct aspace *as, const struct syscall_args *args)
{
	const uint64_t nr = args->a[1], pages = args->a[2], nodes = args->a[3];
	int err = 0;

	for (uint64_t i = 0; i < nr && !err; i++) {
		uint64_t addr;
		int place;

		if (READ_ONCE(thread_current()->flags) & THREAD_F_KILL)
			return -EINTR;
		if (get_user_u64(&addr, (const void __user *)(pages + i * sizeof(addr))))
			return -EFAULT;
		err = nodes ? check_target(nodes + i * sizeof(uint32_t)) : 0;
		if (err)
			break;
		place = place_of(as, addr);
		if (place == -EINTR)
			return place;
		if (put_user_u32((uint32_t)place,
				 (void __user *)(args->a[4] + i * sizeof(uint32_t))))
			err = -EFAULT;
	}
	return err;
}

/* move_pages(pid, nr, pages, nodes, status, flags) */
long sys_move_pages(const struct syscall_args *args)
{
	struct aspace *as;
	int err = check_move((uint32_t)args->a[5], MPOL_MF_MOVE | MPOL_MF_MOVE_ALL);

	if (!err)
		err = space_of((int)args->a[0], &as);
	if (err)
		return err;
	err = move_each(as, args);
	aspace_put(as);
	return err;
}
