/* SPDX-License-Identifier: MIT */
/*
 * Multicast: which groups sockets have joined, and datagrams to groups.
 *
 * Flow:	a socket joins a group on one interface: the loopback, or a card of this one's.
 *		The first member of a group on a card joins it in the TCP/IP stack, the last one
 *		leaves it there. A datagram to a group that a socket of this processor has joined
 *		is copied to each socket that its port, addresses and filters suit: members, and
 *		others that IP_MULTICAST_ALL lets have it, as on Linux.
 * Locking:	groups.mutex (RANK_NET), outside the stack's lock, lets one call at a time change
 *		memberships. groups.lock (RANK_SPIN_MONITOR), inside that of the table of ports,
 *		guards the lists and the filters; the holder of the mutex may read them without it.
 * Failure:	a copy for a socket whose buffer is full, or without memory, is lost.
 * Limits:	GROUPS_MAX4 memberships of IPv4 a socket, SOURCES_MAX4 and _MAX6 sources of one, as
 *		Linux's defaults; GROUPS_MAX6 of IPv6; memberships are charged to the program. The
 *		cards are in CARD_GROUPS_MAX groups, as the stack looks through all of them for each
 *		packet to a group: each program counts its own, and one alone gets no more than most
 *		of them (KMEM_CARD_GROUPS). ENOBUFS beyond these. Members on other
 *		processors of the vNode are not reached, and a processor without a card has the
 *		loopback alone. No IP_MSFILTER, no MCAST_MSFILTER.
 * See:		docs/design/sockets.md
 */
#include <abi/in.h>
#include <abi/net.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/tcpip.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/vfs/uio.h>

#include "inet_private.h"
#include "interface.h"

#define BUCKETS         256u
#define GROUPS_MAX4     20u /* net.ipv4.igmp_max_memberships */
#define GROUPS_MAX6     64u /* Linux has the memory of net.core.optmem_max */
#define CARD_GROUPS_MAX 1024u
#define SOURCES_MAX4    10u /* net.ipv4.igmp_max_msf */
#define SOURCES_MAX6    64u /* net.ipv6.mld_max_msf */

struct source {
	uint8_t addr[16];
};

/* One socket's membership. */
struct group {
	struct hlist_node node; /* by address */
	struct list_head link;  /* of the socket's */
	uint8_t addr[16];       /* const */
	uint32_t interface;     /* const */
	uint8_t by[4];          /* const: IPv4: the address that named the interface; 0: none */
	bool counted;           /* groups.mutex: stands for its program's on this card */
	bool include;           /* takes what the sources send, or what all others do */
	uint32_t nr_sources;
	struct source *sources; /* of kmem_alloc() */
};

static struct {
	struct mutex mutex;   /* RANK_NET */
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct hlist_head by_addr[BUCKETS] __guarded_by(&lock);
} groups = {
	.mutex = MUTEX_INIT(groups.mutex, "multicast", RANK_NET),
	.lock = SPINLOCK_INIT("multicast groups", RANK_SPIN_MONITOR),
};

/* The arguments of a call. */
struct request {
	uint8_t group[16], source[16];
	uint32_t interface; /* 0: @by says which, or the system */
	uint8_t by[4];      /* IPv4: an address of the interface; 0: none */
};

static struct hlist_head *bucket_of(const uint8_t addr[16]) __must_hold(&groups.lock)
{
	uint64_t half[2];

	assert_spin_held(&groups.lock);
	memcpy(half, addr, sizeof(half));
	return &groups.by_addr[hash64_pair(half[0], half[1]) % BUCKETS];
}

/* --- interfaces ------------------------------------------------------------------------ */

static bool has_address(const struct inet_interface *i, const uint8_t by[4])
{
	if (i->index == LOOPBACK_INDEX)
		return by[0] == 127;
	return i->prefix4 && !memcmp(i->addr4, by, 4);
}

/* Has the default route of IPv4, or any address of IPv6? */
static bool is_default(const struct inet_interface *i, bool four)
{
	struct inet_route r;

	if (!four)
		return i->nr_addr6 > 0;
	for (unsigned int nr = 0; inet_route_at(nr, &r); nr++) {
		if (r.family == AF_INET && !r.prefix && r.interface == i->index)
			return true;
	}
	return false;
}

/*
 * The interface with this index, or else this address of IPv4, or else the system's choice for
 * groups, which is the loopback where there is no card. -ENODEV: none, or another processor's card.
 */
static int find_interface(bool four, uint32_t index, const uint8_t by[4],
			  struct inet_interface *out)
{
	const bool named = index || !inet_is_zero(by, 4);
	unsigned int nr;

	for (nr = 0; inet_interface_at(nr, out); nr++) {
		if (nr && !tcpip_is_present())
			return -ENODEV;
		if (index   ? out->index == index
		    : named ? has_address(out, by)
			    : nr && is_default(out, four))
			return 0;
	}
	return !named && nr == 1 && inet_interface_at(0, out) ? 0 : -ENODEV;
}

/* --- filters ----------------------------------------------------------------------------- */

static uint32_t find_source(const struct group *g, const uint8_t source[16])
{
	uint32_t i = 0;

	while (i < g->nr_sources && memcmp(g->sources[i].addr, source, 16))
		i++;
	return i;
}

static bool filter_passes(const struct group *g, const uint8_t source[16])
{
	return (find_source(g, source) < g->nr_sources) == g->include;
}

/* Groups that every interface is in. */
static bool is_all_nodes(const uint8_t addr[16])
{
	static const uint8_t all4[16] = { [10] = 0xff, 0xff, 224, 0, 0, 1 };
	static const uint8_t all6[16] = { 0xff, [15] = 1 };

	if (inet_is_v4(addr))
		return !memcmp(addr, all4, 16);
	return (addr[1] == 1 || addr[1] == 2) && !memcmp(addr + 2, all6 + 2, 14);
}

/* Is a socket a member there, and takes what comes from @source? @source NULL: from anywhere. */
static bool has_member(const uint8_t addr[16], uint32_t interface, const uint8_t *source)
{
	const struct group *g;
	bool has = false;

	spin_lock(&groups.lock);
	hlist_for_each_entry(g, bucket_of(addr), node) {
		has = g->interface == interface && !memcmp(g->addr, addr, 16) &&
		      (!source || filter_passes(g, source));
		if (has)
			break;
	}
	spin_unlock(&groups.lock);
	return has;
}

bool inet_group_takes(struct socket *s, const struct inet_name *to, const struct inet_name *from,
		      uint32_t interface)
{
	const bool four = inet_is_v4(to->addr);
	struct inet_socket *u = inet_of(s);
	const struct group *g;
	bool member = false, takes = false;
	int value;

	spin_lock(&groups.lock);
	list_for_each_entry(g, &u->groups, link) {
		/* As Linux: a member of a group of IPv6 is one on all interfaces here. */
		if (memcmp(g->addr, to->addr, 16) || (four && g->interface != interface))
			continue;
		member = true;
		takes = filter_passes(g, from->addr);
		break;
	}
	spin_unlock(&groups.lock);
	if (member)
		return takes;
	return !inet_option_changed(s, four ? SOL_IP : SOL_IPV6,
				    four ? IP_MULTICAST_ALL : IPV6_MULTICAST_ALL, &value);
}

/* --- joining and leaving ----------------------------------------------------------------- */

void inet_groups_init(struct socket *s)
{
	list_init(&inet_of(s)->groups);
}

/* @s's membership; @interface 0: on any. */
static struct group *find_own_locked(struct socket *s, const uint8_t addr[16], uint32_t interface)
	__must_hold(&groups.mutex)
{
	struct group *g;

	assert_mutex_held(&groups.mutex);
	list_for_each_entry(g, &inet_of(s)->groups, link) {
		if (!memcmp(g->addr, addr, 16) && (!interface || g->interface == interface))
			return g;
	}
	return NULL;
}

/* Another membership of @g's program, in the same group on the same card; NULL: there is none. */
static struct group *find_kin_locked(const struct group *g) __must_hold(&groups.mutex)
{
	struct group *other, *found = NULL;

	assert_mutex_held(&groups.mutex);
	spin_lock(&groups.lock);
	hlist_for_each_entry(other, bucket_of(g->addr), node) {
		if (other != g && other->interface == g->interface &&
		    !memcmp(other->addr, g->addr, 16) &&
		    kmem_account_of(other) == kmem_account_of(g)) {
			found = other;
			break;
		}
	}
	spin_unlock(&groups.lock);
	return found;
}

/* @g counts for its program, unless another membership does so already. -ENOBUFS */
static int count_locked(struct group *g) __must_hold(&groups.mutex)
{
	assert_mutex_held(&groups.mutex);
	if (g->interface == LOOPBACK_INDEX || find_kin_locked(g))
		return 0;
	if (!kmem_take(kmem_account_of(g), KMEM_CARD_GROUPS, 1, CARD_GROUPS_MAX))
		return -ENOBUFS;
	g->counted = true;
	return 0;
}

/* @g goes: another membership of its program counts from now on, if there is one. */
static void uncount_locked(struct group *g) __must_hold(&groups.mutex)
{
	struct group *kin = g->counted ? find_kin_locked(g) : NULL;

	assert_mutex_held(&groups.mutex);
	if (kin)
		kin->counted = true;
	else if (g->counted)
		kmem_give(kmem_account_of(g), KMEM_CARD_GROUPS, 1);
	g->counted = false;
}

static int join_card_locked(uint32_t interface, const uint8_t addr[16]) __must_hold(&groups.mutex)
{
	assert_mutex_held(&groups.mutex);
	if (interface == LOOPBACK_INDEX || has_member(addr, interface, NULL))
		return 0;
	return tcpip_join(interface, addr);
}

static void leave_card_locked(uint32_t interface, const uint8_t addr[16]) __must_hold(&groups.mutex)
{
	assert_mutex_held(&groups.mutex);
	if (interface == LOOPBACK_INDEX || has_member(addr, interface, NULL))
		return;
	tcpip_leave(interface, addr);
}

/* A new membership, with the stack's if it is the first on a card. */
static int add_locked(struct socket *s, const struct request *r, uint32_t interface, bool include)
	__must_hold(&groups.mutex)
{
	struct group *g = kmem_alloc(kmem_current(), sizeof(*g));
	int err;

	assert_mutex_held(&groups.mutex);
	if (!g)
		return -ENOBUFS;
	memcpy(g->addr, r->group, sizeof(g->addr));
	memcpy(g->by, r->by, sizeof(g->by));
	g->interface = interface;
	g->include = include;
	err = count_locked(g);
	if (!err)
		err = join_card_locked(interface, r->group);
	if (err) {
		uncount_locked(g);
		kmem_free(g);
		return err;
	}
	spin_lock(&groups.lock);
	hlist_add_head(&g->node, bucket_of(g->addr));
	list_add_tail(&g->link, &inet_of(s)->groups);
	spin_unlock(&groups.lock);
	return 0;
}

static void drop_locked(struct socket *s, struct group *g) __must_hold(&groups.mutex)
{
	assert_mutex_held(&groups.mutex);
	uncount_locked(g);
	spin_lock(&groups.lock);
	hlist_del(&g->node);
	list_del(&g->link);
	spin_unlock(&groups.lock);
	leave_card_locked(g->interface, g->addr);
	kmem_free(g->sources);
	kmem_free(g);
}

void inet_groups_leave(struct socket *s)
{
	struct group *g, *next;

	/* No call on it runs any more. Many sockets that are closed may not wait. */
	if (list_empty(&inet_of(s)->groups))
		return;
	mutex_lock(&groups.mutex);
	list_for_each_entry_safe(g, next, &inet_of(s)->groups, link)
		drop_locked(s, g);
	mutex_unlock(&groups.mutex);
}

/* @s's memberships of one family. */
static uint32_t count_own_locked(struct socket *s, bool four) __must_hold(&groups.mutex)
{
	const struct group *g;
	uint32_t nr = 0;

	assert_mutex_held(&groups.mutex);
	list_for_each_entry(g, &inet_of(s)->groups, link)
		nr += inet_is_v4(g->addr) == four;
	return nr;
}

static int join_locked(struct socket *s, const struct request *r, uint32_t interface, bool include)
	__must_hold(&groups.mutex)
{
	const bool four = inet_is_v4(r->group);

	assert_mutex_held(&groups.mutex);
	if (find_own_locked(s, r->group, four || r->interface ? interface : 0))
		return -EADDRINUSE;
	if (count_own_locked(s, four) >= (four ? GROUPS_MAX4 : GROUPS_MAX6))
		return -ENOBUFS;
	return add_locked(s, r, interface, include);
}

static int leave_locked(struct socket *s, const struct request *r, uint32_t interface)
	__must_hold(&groups.mutex)
{
	struct group *g;

	assert_mutex_held(&groups.mutex);
	list_for_each_entry(g, &inet_of(s)->groups, link) {
		if (memcmp(g->addr, r->group, 16))
			continue;
		if (interface && g->interface != interface)
			continue;
		if (!interface && !inet_is_zero(r->by, 4) && memcmp(g->by, r->by, 4))
			continue;
		drop_locked(s, g);
		return 0;
	}
	return -EADDRNOTAVAIL;
}

/* --- sources ----------------------------------------------------------------------------- */

/* @g gets other sources: @n of @g's and room for one more. NULL: no memory. */
static struct source *copy_sources(const struct group *g, uint32_t n)
{
	struct source *copy = kmem_alloc(kmem_account_of(g), (n + 1) * sizeof(*copy));

	if (copy && n)
		memcpy(copy, g->sources, n * sizeof(*copy));
	return copy;
}

static void set_sources_locked(struct group *g, struct source *sources, uint32_t n)
	__must_hold(&groups.mutex)
{
	struct source *old = g->sources;

	assert_mutex_held(&groups.mutex);
	spin_lock(&groups.lock);
	g->sources = sources;
	g->nr_sources = n;
	spin_unlock(&groups.lock);
	kmem_free(old);
}

/* @add a source to the filter of @g, or take it away. As Linux: both ways, EADDRNOTAVAIL. */
static int change_source_locked(struct group *g, const uint8_t source[16], bool add)
	__must_hold(&groups.mutex)
{
	const uint32_t at = find_source(g, source), n = g->nr_sources;
	struct source *sources;

	assert_mutex_held(&groups.mutex);
	if ((at < n) == add)
		return -EADDRNOTAVAIL;
	if (add && n >= (inet_is_v4(g->addr) ? SOURCES_MAX4 : SOURCES_MAX6))
		return -ENOBUFS;
	sources = copy_sources(g, n);
	if (!sources)
		return -ENOBUFS;
	memcpy(sources[add ? n : at].addr, add ? source : sources[n - 1].addr, 16);
	set_sources_locked(g, sources, add ? n + 1 : n - 1);
	return 0;
}

/* @add: to what @s takes (@include) or does not take of a group that it has joined. */
static int source_locked(struct socket *s, const struct request *r, uint32_t interface,
			 bool include, bool add) __must_hold(&groups.mutex)
{
	struct group *g = find_own_locked(s, r->group, interface);
	int err;

	assert_mutex_held(&groups.mutex);
	/* As Linux: a filter that had a source once keeps its kind, without one as well. */
	if (!g || (g->include != include && g->sources))
		return -EINVAL;
	spin_lock(&groups.lock);
	g->include = include;
	spin_unlock(&groups.lock);
	err = change_source_locked(g, r->source, add);
	/* The last source of those that it takes: it takes nothing more. */
	if (!err && include && !add && !g->nr_sources)
		drop_locked(s, g);
	return err;
}

/* --- setsockopt() ------------------------------------------------------------------------- */

enum action {
	JOIN,
	LEAVE,
	JOIN_SOURCE,
	LEAVE_SOURCE,
	BLOCK,
	UNBLOCK,
	CHOOSE_INTERFACE,
};

/* How the request is written. */
enum form {
	FORM_MREQN,
	FORM_MREQ_SOURCE,
	FORM_MREQ6,
	FORM_GROUP,
	FORM_GROUP_SOURCE,
	FORM_INDEX,
};

struct group_option {
	int option;
	enum form form;
	enum action action;
};

static const struct group_option options4[] = {
	{ IP_MULTICAST_IF, FORM_MREQN, CHOOSE_INTERFACE },
	{ IP_ADD_MEMBERSHIP, FORM_MREQN, JOIN },
	{ IP_DROP_MEMBERSHIP, FORM_MREQN, LEAVE },
	{ IP_UNBLOCK_SOURCE, FORM_MREQ_SOURCE, UNBLOCK },
	{ IP_BLOCK_SOURCE, FORM_MREQ_SOURCE, BLOCK },
	{ IP_ADD_SOURCE_MEMBERSHIP, FORM_MREQ_SOURCE, JOIN_SOURCE },
	{ IP_DROP_SOURCE_MEMBERSHIP, FORM_MREQ_SOURCE, LEAVE_SOURCE },
};

static const struct group_option options6[] = {
	{ IPV6_MULTICAST_IF, FORM_INDEX, CHOOSE_INTERFACE },
	{ IPV6_ADD_MEMBERSHIP, FORM_MREQ6, JOIN },
	{ IPV6_DROP_MEMBERSHIP, FORM_MREQ6, LEAVE },
};

static const struct group_option options46[] = {
	{ MCAST_JOIN_GROUP, FORM_GROUP, JOIN },
	{ MCAST_LEAVE_GROUP, FORM_GROUP, LEAVE },
	{ MCAST_BLOCK_SOURCE, FORM_GROUP_SOURCE, BLOCK },
	{ MCAST_UNBLOCK_SOURCE, FORM_GROUP_SOURCE, UNBLOCK },
	{ MCAST_JOIN_SOURCE_GROUP, FORM_GROUP_SOURCE, JOIN_SOURCE },
	{ MCAST_LEAVE_SOURCE_GROUP, FORM_GROUP_SOURCE, LEAVE_SOURCE },
};

static const struct group_option *find_in(const struct group_option *table, size_t nr, int option)
{
	for (size_t i = 0; i < nr; i++) {
		if (table[i].option == option)
			return &table[i];
	}
	return NULL;
}

/* NULL: it is none of these. */
static const struct group_option *find_option(int level, int option)
{
	const struct group_option *o = NULL;

	if (level == SOL_IP)
		o = find_in(options4, ARRAY_SIZE(options4), option);
	else if (level == SOL_IPV6)
		o = find_in(options6, ARRAY_SIZE(options6), option);
	if (!o && (level == SOL_IP || level == SOL_IPV6))
		o = find_in(options46, ARRAY_SIZE(options46), option);
	return o;
}

bool inet_is_group_option(int level, int option)
{
	return find_option(level, option) != NULL;
}

/* A name of struct group_req: an address of the level's family. -EADDRNOTAVAIL. */
static int fetch_name(const uint8_t *name, bool four, uint8_t out[16])
{
	struct linux_sockaddr_in in;
	struct linux_sockaddr_in6 in6;

	memcpy(&in, name, sizeof(in));
	memcpy(&in6, name, sizeof(in6));
	if (in.family != (four ? AF_INET : AF_INET6))
		return -EADDRNOTAVAIL;
	if (four)
		inet_map_v4(&in.addr, out);
	else
		memcpy(out, in6.addr, 16);
	return 0;
}

/* Forms of IPv4 alone. */
static int fetch_old(enum form form, bool bare, const void *val, uint32_t len, struct request *r)
{
	struct linux_ip_mreq_source src = { 0 };
	struct linux_ip_mreqn mreq = { 0 };

	if (form == FORM_MREQ_SOURCE) {
		if (len != sizeof(src))
			return -EINVAL;
		memcpy(&src, val, sizeof(src));
		inet_map_v4(&src.multiaddr, r->group);
		inet_map_v4(&src.sourceaddr, r->source);
		memcpy(r->by, &src.interface, 4);
		return 0;
	}
	/* IP_MULTICAST_IF takes the address alone as well. */
	if (len >= sizeof(mreq))
		memcpy(&mreq, val, sizeof(mreq));
	else if (len >= LINUX_IP_MREQ_SIZE)
		memcpy(&mreq, val, LINUX_IP_MREQ_SIZE);
	else if (bare && len >= sizeof(mreq.address))
		memcpy(&mreq.address, val, sizeof(mreq.address));
	else
		return -EINVAL;
	inet_map_v4(&mreq.multiaddr, r->group);
	memcpy(r->by, &mreq.address, 4);
	r->interface = (uint32_t)mreq.ifindex;
	return 0;
}

static int fetch_request(const struct group_option *o, bool four, const void *val, uint32_t len,
			 struct request *r)
{
	struct linux_group_source_req req = { 0 };
	struct linux_ipv6_mreq mreq6;
	int err;

	memset(r, 0, sizeof(*r));
	switch (o->form) {
	case FORM_MREQN:
	case FORM_MREQ_SOURCE:
		return fetch_old(o->form, o->action == CHOOSE_INTERFACE, val, len, r);
	case FORM_INDEX:
		if (len < sizeof(r->interface))
			return -EINVAL;
		memcpy(&r->interface, val, sizeof(r->interface));
		return 0;
	case FORM_MREQ6:
		if (len < sizeof(mreq6))
			return -EINVAL;
		memcpy(&mreq6, val, sizeof(mreq6));
		memcpy(r->group, mreq6.multiaddr, 16);
		r->interface = (uint32_t)mreq6.ifindex;
		return 0;
	case FORM_GROUP:
		if (len < LINUX_GROUP_REQ_SIZE)
			return -EINVAL;
		memcpy(&req, val, LINUX_GROUP_REQ_SIZE);
		r->interface = req.interface;
		err = fetch_name(req.group, four, r->group);
		return err && four ? -EINVAL : err;
	case FORM_GROUP_SOURCE:
	default:
		if (len != sizeof(req))
			return -EINVAL;
		memcpy(&req, val, sizeof(req));
		r->interface = req.interface;
		err = fetch_name(req.source, four, r->source);
		return err ? err : fetch_name(req.group, four, r->group);
	}
}

/* IP_MULTICAST_IF, IPV6_MULTICAST_IF. */
static int choose_interface(struct socket *s, bool four, const struct request *r)
{
	struct inet_socket *u = inet_of(s);
	struct inet_interface i = { .index = 0 };

	if (s->type == SOCK_STREAM)
		return four ? -EINVAL : -ENOPROTOOPT;
	if ((r->interface || !inet_is_zero(r->by, 4)) &&
	    find_interface(four, r->interface, r->by, &i))
		return four ? -EADDRNOTAVAIL : -ENODEV;
	WRITE_ONCE(*(four ? &u->mc_if4 : &u->mc_if6), i.index);
	if (four) {
		spin_lock(&s->lock);
		memcpy(u->mc_addr4, r->by, sizeof(u->mc_addr4));
		spin_unlock(&s->lock);
	}
	return 0;
}

static int change_locked(struct socket *s, enum action action, const struct request *r,
			 uint32_t interface) __must_hold(&groups.mutex)
{
	int err;

	assert_mutex_held(&groups.mutex);
	switch (action) {
	case JOIN:
		return join_locked(s, r, interface, false);
	case LEAVE:
		return leave_locked(s, r, interface);
	case JOIN_SOURCE:
		err = join_locked(s, r, interface, true);
		return err && err != -EADDRINUSE ? err : source_locked(s, r, interface, true, true);
	case LEAVE_SOURCE:
		return source_locked(s, r, interface, true, false);
	default:
		return source_locked(s, r, interface, false, action == BLOCK);
	}
}

int inet_group_set(struct socket *s, int level, int option, const void *val, uint32_t len)
{
	const struct group_option *o = find_option(level, option);
	const bool four = level == SOL_IP;
	struct inet_interface i;
	struct request r;
	int err;

	if (!o || (!four && s->family != AF_INET6))
		return -ENOPROTOOPT;
	/* As Linux: these, and not the forms that are of both families. */
	if (s->type == SOCK_STREAM && (o->form == FORM_MREQN || o->form == FORM_MREQ6) &&
	    o->action != CHOOSE_INTERFACE)
		return -EPROTO;
	err = fetch_request(o, four, val, len, &r);
	if (err)
		return err;
	if (o->action == CHOOSE_INTERFACE)
		return choose_interface(s, four, &r);
	if (inet_is_v4(r.group) != four || !inet_is_multicast(r.group))
		return o->action == LEAVE && four ? -EADDRNOTAVAIL : -EINVAL;
	err = find_interface(four, r.interface, r.by, &i);
	if (err && (o->action != LEAVE || (four && !r.interface && inet_is_zero(r.by, 4))))
		return err;
	mutex_lock(&groups.mutex);
	/* One of IPv6 is left on any interface, unless the program names one. */
	err = change_locked(s, o->action, &r,
			    err || (!four && o->action == LEAVE) ? r.interface : i.index);
	mutex_unlock(&groups.mutex);
	return err;
}

/* --- datagrams ---------------------------------------------------------------------------- */

/* The address of @i that datagrams to @group carry. False: it has none. */
static bool source_on(const struct inet_interface *i, const uint8_t group[16], uint8_t from[16])
{
	const bool near = (group[1] & 0xf) <= 2; /* this node or this link */

	if (inet_is_v4(group)) {
		inet_map_v4(i->addr4, from);
		return i->prefix4;
	}
	for (uint32_t a = 0; a < i->nr_addr6; a++) {
		const bool link_local = i->addr6[a].scope == RT_SCOPE_LINK;

		memcpy(from, i->addr6[a].addr, 16);
		if (link_local == near || i->nr_addr6 == 1)
			return true;
	}
	return i->nr_addr6 > 0;
}

/*
 * The address that the program named beside the interface, if it is one of @i's: no datagram goes
 * out in another's name. -EINVAL. None: @from stays.
 */
static int take_named(struct socket *s, const struct inet_interface *i, uint8_t from[16])
{
	uint8_t named[4];

	spin_lock(&s->lock);
	memcpy(named, inet_of(s)->mc_addr4, sizeof(named));
	spin_unlock(&s->lock);
	if (inet_is_zero(named, 4))
		return 0;
	if (!has_address(i, named))
		return -EINVAL;
	inet_map_v4(named, from);
	return 0;
}

int inet_group_way(struct socket *s, const struct inet_name *to, uint32_t *interface,
		   uint8_t from[16])
{
	const bool four = inet_is_v4(to->addr);
	struct inet_socket *u = inet_of(s);
	const bool bound = u->bound_addr && !inet_is_multicast(u->local.addr);
	uint32_t index = to->scope_id;
	struct inet_interface i;
	uint8_t by[4] = { 0 };
	int err = 0;

	if (!index)
		index = READ_ONCE(*(four ? &u->mc_if4 : &u->mc_if6));
	if (!index && four && bound)
		memcpy(by, u->local.addr + 12, 4);
	if (!index && !four && bound && inet_is_loopback(u->local.addr))
		index = LOOPBACK_INDEX;
	if (find_interface(four, index, by, &i) || !source_on(&i, to->addr, from))
		return -ENETUNREACH;
	if (bound)
		memcpy(from, u->local.addr, 16);
	else if (four)
		err = take_named(s, &i, from);
	*interface = i.index;
	return err;
}

struct datagram {
	const struct inet_packet *packet;
	const void *data;
	size_t len;
};

static uint32_t find_members(const void *what, struct socket **out, uint32_t max)
{
	const struct inet_packet *p = ((const struct datagram *)what)->packet;

	return inet_find_group(&p->to, &p->from, p->interface, out, max);
}

static void give_member(struct socket *to, const void *what)
{
	const struct datagram *d = what;

	udp_receive(to, d->packet, d->data, d->len);
}

void inet_group_deliver(const struct inet_packet *packet, const void *data, size_t len)
{
	const struct datagram d = { .packet = packet, .data = data, .len = len };
	const uint8_t *group = packet->to.addr;

	if (is_all_nodes(group) || has_member(group, packet->interface, packet->from.addr))
		inet_give_all(find_members, give_member, &d);
}

ssize_t inet_group_send(struct socket *s, struct socket_msg *m, const struct inet_packet *packet)
{
	const bool four = inet_is_v4(packet->to.addr), named = !inet_is_any(packet->from.addr);
	const size_t len = m->uio->left;
	struct inet_packet p = *packet, out;
	uint8_t *buf;
	int loop, err;

	err = inet_group_way(s, &p.to, &p.interface, p.from.addr);
	if (err)
		return err;
	if (named)
		memcpy(p.from.addr, packet->from.addr, sizeof(p.from.addr));
	/* Unless the program names the source, it is the stack's choice. */
	out = p;
	if (!named)
		memset(out.from.addr, 0, sizeof(out.from.addr));
	(void)inet_option_changed(s, four ? SOL_IP : SOL_IPV6,
				  four ? IP_MULTICAST_LOOP : IPV6_MULTICAST_LOOP, &loop);
	buf = kmalloc(MAX(len, (size_t)1));
	if (!buf)
		return -ENOBUFS;
	if (uio_fetch(m->uio, buf, len) < len)
		err = -EFAULT;
	else if (p.interface == LOOPBACK_INDEX || loop)
		inet_group_deliver(&p, buf, len);
	if (!err && p.interface != LOOPBACK_INDEX && p.ttl)
		err = outside_send_group(s, &out, buf, len);
	kfree(buf);
	return err ? err : (ssize_t)len;
}
