/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/ns, and the names of the system in /proc/sys/kernel, which are the reader's.
 */
#include <lib/err.h>
#include <lib/string.h>
#include <processor/ns/ns.h>

#include "proc_private.h"

/* --- /proc/<pid>/ns ------------------------------------------------------------------ */

/* @kind NS_KINDS: the PID namespace of children. Referenced; ERR_PTR(-ESRCH, -ENOENT). */
static struct ns *ns_of(const struct pseudo_subject *s, enum ns_kind kind)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);
	struct ns *ns;

	if (err)
		return ERR_PTR(err);
	ns = kind == NS_KINDS ? ns_of_children(ref.process, s->tid)
			      : ns_of_process(ref.process, s->tid, kind);
	proc_put(&ref);
	return ns;
}

static int put_link(struct text *t, const struct pseudo_subject *s, enum ns_kind kind)
{
	struct ns *ns = ns_of(s, kind);
	char text[NS_TEXT_MAX];

	if (IS_ERR(ns))
		return PTR_ERR(ns);
	ns_text(ns, text);
	ns_put(ns);
	text_puts(t, text);
	return 0;
}

static int lead_to(const struct pseudo_subject *s, enum ns_kind kind, struct path *to)
{
	struct ns *ns = ns_of(s, kind);
	int err;

	if (IS_ERR(ns))
		return PTR_ERR(ns);
	err = ns_path(ns, to);
	ns_put(ns);
	return err;
}

#define NS_FUNCTIONS(name, kind)                                                 \
	static int link_##name(struct text *t, const struct pseudo_subject *s)   \
	{                                                                        \
		return put_link(t, s, (kind));                                   \
	}                                                                        \
	static int magic_##name(const struct pseudo_subject *s, struct path *to) \
	{                                                                        \
		return lead_to(s, (kind), to);                                   \
	}

NS_FUNCTIONS(cgroup, NS_CGROUP)
NS_FUNCTIONS(ipc, NS_IPC)
NS_FUNCTIONS(mnt, NS_MNT)
NS_FUNCTIONS(net, NS_NET)
NS_FUNCTIONS(pid, NS_PID)
NS_FUNCTIONS(children, NS_KINDS)
NS_FUNCTIONS(user, NS_USER)
NS_FUNCTIONS(uts, NS_UTS)

#define NS_LINK(n, fn, to) \
	{ .name = (n), .mode = S_IFLNK | 0777, .traced = true, .link = (fn), .magic_link = (to) }

const struct pseudo_node proc_ns_nodes[] = {
	NS_LINK("cgroup", link_cgroup, magic_cgroup),
	NS_LINK("ipc", link_ipc, magic_ipc),
	NS_LINK("mnt", link_mnt, magic_mnt),
	NS_LINK("net", link_net, magic_net),
	NS_LINK("pid", link_pid, magic_pid),
	NS_LINK("pid_for_children", link_children, magic_children),
	NS_LINK("user", link_user, magic_user),
	NS_LINK("uts", link_uts, magic_uts),
	{ 0 },
};

/* --- names of the system ------------------------------------------------------------- */

SHOW(show_hostname)
{
	struct uts_names names;

	uts_names(&names);
	text_printf(t, "%s\n", names.node);
	return 0;
}

SHOW(show_domainname)
{
	struct uts_names names;

	uts_names(&names);
	text_printf(t, "%s\n", names.domain);
	return 0;
}

/* Up to the end of the line, and what is too long is cut, as on Linux. */
static size_t line_len(const char *buf, size_t len)
{
	size_t n = 0;

	while (n < len && n < UTS_NAME_MAX && buf[n] && buf[n] != '\n')
		n++;
	return n;
}

int store_hostname(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uts_set_node(buf, line_len(buf, len));
	return 0;
}

int store_domainname(const struct pseudo_subject *s, const char *buf, size_t len)
{
	uts_set_domain(buf, line_len(buf, len));
	return 0;
}
