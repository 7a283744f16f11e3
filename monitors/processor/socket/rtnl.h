/* SPDX-License-Identifier: MIT */
/*
 * Netlink's route family: what programs ask about interfaces, addresses and routes, and answers.
 *
 * Flow:	netlink.c takes a program's bytes apart by nl_next() and gives each request to
 *		rtnl_answer(), which finds what is asked for and encodes it by rtnl_codec.c. Answers
 *		go out in parts of at most NL_PART bytes: what a reader's page holds.
 * Limits:	programs ask; none can change anything.
 */
#pragma once

#include <abi/netlink.h>

#include "inet.h"

#define NL_PART 3776u /* as Linux: a page without what its buffers need */

/* --- rtnl_codec.c: pure -------------------------------------------------------------- */

/*
 * The header of the message at @buf, which lies in there whole, into *@hdr. The bytes up to the
 * next; 0: there is no message.
 */
size_t nl_next(const void *buf, size_t len, struct linux_nlmsghdr *hdr);

/* A request of type RTM_GET*. */
struct rtnl_request {
	struct linux_nlmsghdr hdr;
	uint8_t family;
	int32_t index;   /* of an interface; 0: none given */
	char name[16];   /* of an interface; "": none given */
	uint32_t table;  /* of routes; 0: none given */
	uint8_t dst_len; /* of a route; 0: none given */
	uint8_t dst[16];
};
/*
 * Decode the request @msg of @hdr->len bytes. -EINVAL: too short for its type, or an attribute has
 * a wrong size; -ERANGE: a name is too long; -EOPNOTSUPP: the type is none of ours. Of a dump that
 * is not @strict only the family counts.
 */
int rtnl_decode(const void *msg, const struct linux_nlmsghdr *hdr, bool strict,
		struct rtnl_request *out) __must_check;

/* Bytes of an answer. */
struct nl_sink {
	uint8_t *data;
	size_t len, room;
	bool full; /* the message that is being written has no place */
};
/* The program's request, as its answers name it. */
struct nl_reply {
	uint32_t seq, pid;
	uint16_t flags; /* NLM_F_* */
};
/* Append one message. False: it has no place, and @out is as before. */
bool rtnl_put_link(struct nl_sink *out, const struct nl_reply *to, const struct inet_interface *i);
bool rtnl_put_addr4(struct nl_sink *out, const struct nl_reply *to, const struct inet_interface *i);
/* The @nr-th of its IPv6 addresses. */
bool rtnl_put_addr6(struct nl_sink *out, const struct nl_reply *to, const struct inet_interface *i,
		    uint32_t nr);

struct rtnl_route {
	struct inet_route route;
	uint8_t type, protocol, scope;
	uint32_t table, flags;
	bool has_source;
	uint8_t source[16];
};
bool rtnl_put_route(struct nl_sink *out, const struct nl_reply *to, const struct rtnl_route *r);
bool nl_put_done(struct nl_sink *out, const struct nl_reply *to);
/* @msg: the request of @hdr->len bytes; NULL: it is not repeated. */
bool nl_put_error(struct nl_sink *out, const struct nl_reply *to, const struct linux_nlmsghdr *hdr,
		  const void *msg, int err);

/* --- rtnl.c -------------------------------------------------------------------------- */

/* Where answers go: parts of a few messages each. */
struct nl_out {
	struct nl_sink sink; /* the part that is being written, NL_PART bytes */
	/* 0, or an errno that ends the answer. */
	int (*send)(struct nl_out *out);
	void *arg;
};

#define RTNL_ANSWERED 1 /* not an errno: the answer is complete, no acknowledgement follows */

/*
 * Answer the request @msg of @hdr->len bytes from port @pid. RTNL_ANSWERED; 0 or an errno, for an
 * acknowledgement: -EOPNOTSUPP, -EPERM: it would change something; -ENODEV, -ENETUNREACH ...
 */
int rtnl_answer(struct nl_out *out, const struct linux_nlmsghdr *hdr, const void *msg, uint32_t pid,
		bool strict, bool admin) __must_check;
