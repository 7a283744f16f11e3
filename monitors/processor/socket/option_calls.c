/* SPDX-License-Identifier: MIT */
/*
 * Options of sockets: SOL_SOCKET for all families; other levels are the family's.
 */
#include <abi/in.h>
#include <abi/prctl.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "calls_private.h"

#define WMEM_MAX     212992u
#define SNDBUF_MIN   4608u /* of what is kept: Linux doubles what is asked for */
#define RCVBUF_MIN   2304u
#define BUF_LIMIT    0x3fffffffu
#define PRIORITY_MAX 6

/* Options that are one bit. */
static const struct {
	int option;
	uint32_t bit;
} switches[] = {
	{ SO_REUSEADDR, SOCKET_REUSEADDR }, { SO_REUSEPORT, SOCKET_REUSEPORT },
	{ SO_KEEPALIVE, SOCKET_KEEPALIVE }, { SO_BROADCAST, SOCKET_BROADCAST },
	{ SO_OOBINLINE, SOCKET_OOBINLINE }, { SO_DONTROUTE, SOCKET_DONTROUTE },
	{ SO_PASSCRED, SOCKET_PASSCRED },   { SO_NO_CHECK, SOCKET_NO_CHECK },
	{ SO_RXQ_OVFL, SOCKET_RXQ_OVFL },   { SO_DEBUG, SOCKET_DEBUG },
};

static uint32_t switch_bit(int option)
{
	for (size_t i = 0; i < ARRAY_SIZE(switches); i++) {
		if (switches[i].option == option)
			return switches[i].bit;
	}
	return 0;
}

static void change_bits(struct socket *s, uint32_t clear, uint32_t set)
{
	spin_lock(&s->lock);
	WRITE_ONCE(s->options, (s->options & ~clear) | set);
	spin_unlock(&s->lock);
}

/* --- setting ------------------------------------------------------------------------- */

static void set_sndbuf(struct socket *s, uint32_t val)
{
	WRITE_ONCE(s->sndbuf, MAX(MIN(val, BUF_LIMIT) * 2, SNDBUF_MIN));
	change_bits(s, 0, SOCKET_SNDBUF_SET);
	socket_wake(&s->wr_wait);
}

static void set_rcvbuf(struct socket *s, uint32_t val)
{
	WRITE_ONCE(s->rcvbuf, MAX(MIN(val, BUF_LIMIT) * 2, RCVBUF_MIN));
	change_bits(s, 0, SOCKET_RCVBUF_SET);
}

/* A struct timeval; 0 means for ever. -EINVAL, -EDOM */
static int set_timeout(uint64_t *timeo_ns, const void *val, uint32_t len)
{
	int64_t tv[2];

	if (len < sizeof(tv))
		return -EINVAL;
	memcpy(tv, val, sizeof(tv));
	if (tv[1] < 0 || tv[1] >= 1000000)
		return -EDOM;
	if (tv[0] < 0)
		WRITE_ONCE(*timeo_ns, 0);
	else if (!tv[0] && !tv[1])
		WRITE_ONCE(*timeo_ns, WAIT_FOREVER);
	else if ((uint64_t)tv[0] >= INT64_MAX / NSEC_PER_SEC)
		WRITE_ONCE(*timeo_ns, WAIT_FOREVER);
	else
		WRITE_ONCE(*timeo_ns,
			   (uint64_t)tv[0] * NSEC_PER_SEC + (uint64_t)tv[1] * NSEC_PER_USEC);
	return 0;
}

static int set_linger(struct socket *s, const void *val, uint32_t len)
{
	struct linux_linger l;

	if (len < sizeof(l))
		return -EINVAL;
	memcpy(&l, val, sizeof(l));
	if (l.onoff)
		WRITE_ONCE(s->linger_s, (uint32_t)l.linger);
	change_bits(s, SOCKET_LINGER, l.onoff ? SOCKET_LINGER : 0);
	return 0;
}

static void set_stamps(struct socket *s, int option, bool on)
{
	const bool ns = option == SO_TIMESTAMPNS_OLD || option == SO_TIMESTAMPNS_NEW;
	const bool new = option == SO_TIMESTAMP_NEW || option == SO_TIMESTAMPNS_NEW;

	change_bits(s, SOCKET_TIMESTAMP | SOCKET_TIMESTAMPNS | SOCKET_TIMESTAMP_NEW,
		    on ? (ns ? SOCKET_TIMESTAMPNS : SOCKET_TIMESTAMP) |
				    (new ? SOCKET_TIMESTAMP_NEW : 0)
		       : 0);
}

/* Those with an int that are no switches. */
static int set_number(struct socket *s, int option, int val)
{
	switch (option) {
	case SO_SNDBUF:
		set_sndbuf(s, MIN((uint32_t)val, WMEM_MAX));
		return 0;
	case SO_RCVBUF:
		set_rcvbuf(s, MIN((uint32_t)val, WMEM_MAX));
		return 0;
	case SO_SNDBUFFORCE:
	case SO_RCVBUFFORCE:
		if (!capable(CAP_NET_ADMIN))
			return -EPERM;
		if (option == SO_SNDBUFFORCE)
			set_sndbuf(s, (uint32_t)MAX(val, 0));
		else
			set_rcvbuf(s, (uint32_t)MAX(val, 0));
		return 0;
	case SO_PRIORITY:
		if ((val < 0 || val > PRIORITY_MAX) && !capable(CAP_NET_ADMIN))
			return -EPERM;
		WRITE_ONCE(s->priority, (uint32_t)val);
		return 0;
	case SO_MARK:
		if (!capable(CAP_NET_ADMIN))
			return -EPERM;
		WRITE_ONCE(s->mark, (uint32_t)val);
		return 0;
	case SO_RCVLOWAT:
		WRITE_ONCE(s->rcvlowat, val < 0 ? (uint32_t)INT32_MAX : (uint32_t)MAX(val, 1));
		return 0;
	case SO_TIMESTAMP_OLD:
	case SO_TIMESTAMPNS_OLD:
	case SO_TIMESTAMP_NEW:
	case SO_TIMESTAMPNS_NEW:
		set_stamps(s, option, val);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_option(struct socket *s, int option, const void *val, uint32_t len)
{
	const uint32_t bit = switch_bit(option);
	int number;

	if (len < sizeof(number))
		return -EINVAL;
	memcpy(&number, val, sizeof(number));
	switch (option) {
	case SO_LINGER:
		return set_linger(s, val, len);
	case SO_RCVTIMEO_OLD:
	case SO_RCVTIMEO_NEW:
		return set_timeout(&s->rcvtimeo_ns, val, len);
	case SO_SNDTIMEO_OLD:
	case SO_SNDTIMEO_NEW:
		return set_timeout(&s->sndtimeo_ns, val, len);
	default:
		break;
	}
	if (!bit)
		return set_number(s, option, number);
	if (option == SO_DEBUG && number && !capable(CAP_NET_ADMIN))
		return -EACCES;
	change_bits(s, bit, number ? bit : 0);
	return 0;
}

/* setsockopt(fd, level, option, value, len) */
long sys_setsockopt(const struct syscall_args *args)
{
	const int level = (int)args->a[1], option = (int)args->a[2];
	const uint32_t len = MIN((uint32_t)args->a[4], SOCKOPT_MAX);
	uint8_t val[SOCKOPT_MAX] = { 0 };
	struct socket_ref ref;
	struct socket *s;
	int err;

	s = socket_borrow(args->a[0], &ref);
	if (IS_ERR(s))
		return PTR_ERR(s);
	if ((int32_t)args->a[4] < 0)
		err = -EINVAL;
	else
		err = copy_from_user(val, (const void __user *)args->a[3], len);
	if (!err && level == SOL_SOCKET)
		err = set_option(s, option, val, len);
	else if (!err)
		err = s->ops->setsockopt ? s->ops->setsockopt(s, level, option, val, len)
					 : -EOPNOTSUPP;
	if (!err && level == SOL_SOCKET && s->ops->option_changed)
		s->ops->option_changed(s, option);
	socket_return(&ref);
	return err;
}

/* --- getting ------------------------------------------------------------------------- */

static void get_timeout(uint64_t timeo_ns, uint64_t tv[2])
{
	tv[0] = timeo_ns == WAIT_FOREVER ? 0 : timeo_ns / NSEC_PER_SEC;
	tv[1] = timeo_ns == WAIT_FOREVER ? 0 : timeo_ns % NSEC_PER_SEC / NSEC_PER_USEC;
}

/* Those with an int; -ENOPROTOOPT. */
static int get_number(struct socket *s, int option, uint32_t *val)
{
	const uint32_t bit = switch_bit(option), options = READ_ONCE(s->options);
	const bool new = options & SOCKET_TIMESTAMP_NEW;

	if (bit) {
		*val = !!(options & bit);
		return 0;
	}
	switch (option) {
	case SO_TYPE:
		*val = s->type;
		return 0;
	case SO_ERROR:
		*val = (uint32_t)socket_take_error(s);
		return 0;
	case SO_SNDBUF:
		*val = READ_ONCE(s->sndbuf);
		return 0;
	case SO_RCVBUF:
		*val = READ_ONCE(s->rcvbuf);
		return 0;
	case SO_DOMAIN:
		*val = s->family;
		return 0;
	case SO_PROTOCOL:
		*val = s->protocol;
		return 0;
	case SO_ACCEPTCONN:
		*val = READ_ONCE(s->state) == SOCKET_LISTENING;
		return 0;
	case SO_PRIORITY:
		*val = READ_ONCE(s->priority);
		return 0;
	case SO_MARK:
		*val = READ_ONCE(s->mark);
		return 0;
	case SO_RCVLOWAT:
		*val = READ_ONCE(s->rcvlowat);
		return 0;
	case SO_SNDLOWAT:
		*val = 1;
		return 0;
	case SO_TIMESTAMP_OLD:
	case SO_TIMESTAMP_NEW:
		*val = (options & SOCKET_TIMESTAMP) && new == (option == SO_TIMESTAMP_NEW);
		return 0;
	case SO_TIMESTAMPNS_OLD:
	case SO_TIMESTAMPNS_NEW:
		*val = (options & SOCKET_TIMESTAMPNS) && new == (option == SO_TIMESTAMPNS_NEW);
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

/* The name of the peer, which is all or nothing. */
static int get_peername(struct socket *s, void *val, uint32_t *len)
{
	struct sock_addr addr = { 0 };
	int err = s->ops->getname ? s->ops->getname(s, true, &addr) : -ENOTCONN;

	if (err)
		return -ENOTCONN;
	if (addr.len < *len)
		return -EINVAL;
	memcpy(val, addr.bytes, *len);
	return 0;
}

/* *@len: room on the way in, the answer's size on the way out. */
static int get_option(struct socket *s, int option, void *val, uint32_t *len)
{
	const struct linux_linger linger = {
		.onoff = socket_option(s, SOCKET_LINGER),
		.linger = (int32_t)READ_ONCE(s->linger_s),
	};
	struct socket_cred cred;
	uint64_t tv[2];
	const void *from = tv;
	uint32_t size = sizeof(tv), number;
	int err;

	switch (option) {
	case SO_PEERNAME:
		return get_peername(s, val, len);
	case SO_LINGER:
		from = &linger;
		size = sizeof(linger);
		break;
	case SO_RCVTIMEO_OLD:
	case SO_RCVTIMEO_NEW:
		get_timeout(READ_ONCE(s->rcvtimeo_ns), tv);
		break;
	case SO_SNDTIMEO_OLD:
	case SO_SNDTIMEO_NEW:
		get_timeout(READ_ONCE(s->sndtimeo_ns), tv);
		break;
	case SO_COOKIE:
		if (*len < sizeof(s->ino))
			return -EINVAL;
		from = &s->ino;
		size = sizeof(s->ino);
		break;
	case SO_PEERCRED:
		spin_lock(&s->lock);
		cred = s->peer_cred;
		spin_unlock(&s->lock);
		if (!cred.pid)
			cred.uid = cred.gid = UINT32_MAX;
		else
			cred = (struct socket_cred){ cred.pid, uid_out(cred.uid),
						     gid_out(cred.gid) };
		cred.pid = pid_vnr(cred.pid);
		from = &cred;
		size = sizeof(cred);
		break;
	default:
		err = get_number(s, option, &number);
		if (err)
			return err;
		from = &number;
		size = sizeof(number);
		break;
	}
	*len = MIN(*len, size);
	memcpy(val, from, *len);
	return 0;
}

/* getsockopt(fd, level, option, value, len) */
long sys_getsockopt(const struct syscall_args *args)
{
	const int level = (int)args->a[1], option = (int)args->a[2];
	uint8_t val[SOCKOPT_MAX] = { 0 };
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	uint32_t len;
	int err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	err = get_user_u32(&len, (const void __user *)args->a[4]);
	if (!err && (int32_t)len < 0)
		err = -EINVAL;
	len = MIN(len, SOCKOPT_MAX);
	if (!err && level == SOL_SOCKET)
		err = get_option(s, option, val, &len);
	else if (!err)
		err = s->ops->getsockopt ? s->ops->getsockopt(s, level, option, val, &len)
					 : -EOPNOTSUPP;
	if (!err)
		err = copy_to_user((void __user *)args->a[3], val, len);
	if (!err)
		err = put_user_u32(len, (void __user *)args->a[4]);
	socket_return(&ref);
	return err;
}
