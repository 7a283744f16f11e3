/* SPDX-License-Identifier: MIT */
/*
 * System calls that send and receive.
 */
#include <abi/fcntl.h>
#include <abi/in.h>
#include <abi/time.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/uio.h>

#include "calls_private.h"
#include "cmsg.h"
#include "scm.h"

#define CONTROL_MAX 131072u /* net.core.optmem_max */

static uint32_t with_nonblock(const struct file *f, uint32_t flags)
{
	return file_nonblock(f) ? flags | MSG_DONTWAIT : flags;
}

/* --- ancillary data ------------------------------------------------------------------ */

/* May the calling task say that it is @cred? These are ids of the kernel by now. */
static int check_cred(const struct linux_ucred *cred)
{
	const struct cred *own = cred_current();

	if (cred->uid == ID_NONE || cred->gid == ID_NONE)
		return -EINVAL;
	if (cred->pid != process_vpid(process_current()) &&
	    !ns_capable(pid_ns_owner(pid_ns_current()), CAP_SYS_ADMIN))
		return -EPERM;
	if (cred->uid != own->uid && cred->uid != own->euid && cred->uid != own->suid &&
	    !capable_here(CAP_SETUID))
		return -EPERM;
	if (cred->gid != own->gid && cred->gid != own->egid && cred->gid != own->sgid &&
	    !capable_here(CAP_SETGID))
		return -EPERM;
	return 0;
}

static int apply_request(const struct cmsg_request *req, struct socket_msg *m)
{
	const struct linux_ucred cred = { req->cred.pid, uid_in(req->cred.uid),
					  gid_in(req->cred.gid) };
	int err = req->has_cred ? check_cred(&cred) : 0;

	if (err)
		return err;
	if (req->has_cred) {
		m->cred = (struct socket_cred){ pid_from_vnr(cred.pid), cred.uid, cred.gid };
		if (req->cred.pid && !m->cred.pid)
			return -ESRCH;
		m->has_cred = true;
	}
	return req->nr_fds ? scm_create(req->fds, req->nr_fds, &m->fds) : 0;
}

/* The ancillary data of a message that is sent into @m. */
static int fetch_control(const struct socket *s, const struct linux_msghdr *h, struct socket_msg *m)
{
	struct cmsg_request *req;
	uint8_t *buf;
	int err;

	if (!h->controllen)
		return 0;
	if (h->controllen > CONTROL_MAX)
		return -ENOBUFS;
	buf = kmalloc(h->controllen);
	req = kmalloc(sizeof(*req));
	if (!buf || !req)
		err = -ENOBUFS;
	else
		err = copy_from_user(buf, (const void __user *)h->control, h->controllen);
	if (!err)
		err = cmsg_decode(buf, h->controllen, s->family, req);
	if (!err && s->family == AF_UNIX)
		err = apply_request(req, m);
	if (!err) {
		m->wish4 = req->wish4;
		m->wish6 = req->wish6;
	}
	kfree(req);
	kfree(buf);
	return err;
}

static void put_stamp(const struct socket *s, const struct socket_msg *m, struct cmsg_sink *sink)
{
	const uint64_t sec = m->stamp_ns / NSEC_PER_SEC, nsec = m->stamp_ns % NSEC_PER_SEC;
	const bool new = socket_option(s, SOCKET_TIMESTAMP_NEW);

	if (!m->stamp_ns)
		return;
	if (socket_option(s, SOCKET_TIMESTAMPNS)) {
		const uint64_t stamp[2] = { sec, nsec };

		cmsg_put(sink, SOL_SOCKET, new ? SO_TIMESTAMPNS_NEW : SO_TIMESTAMPNS_OLD, stamp,
			 sizeof(stamp));
	} else if (socket_option(s, SOCKET_TIMESTAMP)) {
		const uint64_t stamp[2] = { sec, nsec / 1000 };

		cmsg_put(sink, SOL_SOCKET, new ? SO_TIMESTAMP_NEW : SO_TIMESTAMP_OLD, stamp,
			 sizeof(stamp));
	}
}

/* The ancillary data of a message that was received to the program. */
static void put_control(struct socket *s, struct socket_msg *m, struct cmsg_sink *sink)
{
	const struct linux_ucred cred = { pid_vnr(m->cred.pid), uid_out(m->cred.uid),
					  gid_out(m->cred.gid) };

	put_stamp(s, m, sink);
	if (s->family == AF_UNIX && socket_option(s, SOCKET_PASSCRED) && m->has_cred)
		cmsg_put(sink, SOL_SOCKET, SCM_CREDENTIALS, &cred, sizeof(cred));
	if (m->fds) {
		cmsg_put_fds(sink, m->fds, m->flags & MSG_CMSG_CLOEXEC);
		m->fds = NULL;
	}
	if (s->ops->put_control)
		s->ops->put_control(s, m, sink);
}

/* --- sending ------------------------------------------------------------------------- */

/* sendto(fd, buf, len, flags, addr, addrlen) */
long sys_sendto(const struct syscall_args *args)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	struct socket_msg m = { 0 };
	struct uio uio;
	long ret;

	if (IS_ERR(s))
		return PTR_ERR(s);
	m.uio = &uio;
	m.flags = with_nonblock(ref.file, (uint32_t)args->a[3]);
	ret = uio_user(&uio, args->a[1], args->a[2]);
	if (!ret && args->a[4])
		ret = sock_addr_fetch(&m.addr, args->a[4], args->a[5]);
	if (!ret)
		ret = socket_send(s, &m);
	socket_return(&ref);
	return ret;
}

/* The name that a message header has, as far as it goes. */
static int header_addr(struct linux_msghdr *h)
{
	if (!h->name)
		h->namelen = 0;
	if ((int32_t)h->namelen < 0)
		return -EINVAL;
	h->namelen = MIN(h->namelen, LINUX_SOCKADDR_MAX);
	return h->iovlen > UIO_MAXIOV ? -EMSGSIZE : 0;
}

static long send_header(struct socket *s, const struct file *f, struct linux_msghdr *h,
			uint32_t flags)
{
	struct socket_msg m = { .flags = with_nonblock(f, flags) };
	struct uio uio;
	long ret = header_addr(h);

	if (!ret && h->namelen)
		ret = sock_addr_fetch(&m.addr, h->name, h->namelen);
	if (!ret)
		ret = uio_iovec(&uio, h->iov, h->iovlen);
	if (ret)
		return ret;
	m.uio = &uio;
	ret = fetch_control(s, h, &m);
	if (!ret)
		ret = socket_send(s, &m);
	if (m.fds)
		scm_free(m.fds);
	uio_done(&uio);
	return ret;
}

/* sendmsg(fd, msg, flags) */
long sys_sendmsg(const struct syscall_args *args)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	struct linux_msghdr h;
	long ret;

	if (IS_ERR(s))
		return PTR_ERR(s);
	ret = copy_from_user(&h, (const void __user *)args->a[1], sizeof(h));
	if (!ret)
		ret = send_header(s, ref.file, &h, (uint32_t)args->a[2]);
	socket_return(&ref);
	return ret;
}

/* sendmmsg(fd, msgs, nr, flags) */
long sys_sendmmsg(const struct syscall_args *args)
{
	const uint32_t nr = MIN((uint32_t)args->a[2], (uint32_t)UIO_MAXIOV);
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	uint32_t done = 0;
	long ret = 0;

	if (IS_ERR(s))
		return PTR_ERR(s);
	while (done < nr) {
		const uint64_t at = args->a[1] + done * sizeof(struct linux_mmsghdr);
		struct linux_msghdr h;

		ret = copy_from_user(&h, (const void __user *)at, sizeof(h));
		if (!ret)
			ret = send_header(s, ref.file, &h, (uint32_t)args->a[3]);
		if (ret >= 0 &&
		    put_user_u32((uint32_t)ret,
				 (void __user *)(at + offsetof(struct linux_mmsghdr, len))))
			ret = -EFAULT;
		if (ret < 0)
			break;
		done++;
	}
	socket_return(&ref);
	return done ? (long)done : ret;
}

/* --- receiving ----------------------------------------------------------------------- */

static long receive(struct socket *s, struct socket_msg *m)
{
	if ((m->flags & MSG_ERRQUEUE) && s->family != AF_UNIX)
		return s->ops->recv_error ? s->ops->recv_error(s, m) : -EAGAIN;
	return s->ops->recvmsg ? s->ops->recvmsg(s, m) : -EOPNOTSUPP;
}

/* recvfrom(fd, buf, len, flags, addr, addrlen) */
long sys_recvfrom(const struct syscall_args *args)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	struct socket_msg m = { 0 };
	struct uio uio;
	long ret;

	if (IS_ERR(s))
		return PTR_ERR(s);
	m.uio = &uio;
	m.flags = with_nonblock(ref.file, (uint32_t)args->a[3]);
	m.wants_addr = args->a[4] != 0;
	ret = uio_user(&uio, args->a[1], args->a[2]);
	if (!ret)
		ret = receive(s, &m);
	if (ret >= 0 && args->a[4]) {
		const int err = sock_addr_put(&m.addr, args->a[4], args->a[5]);

		ret = err ? err : ret;
	}
	if (m.fds)
		scm_free(m.fds);
	socket_return(&ref);
	return ret;
}

/* The header that recvmsg() writes back. */
static int put_header(uint64_t umsg, const struct linux_msghdr *h, const struct socket_msg *m,
		      const struct cmsg_sink *sink)
{
	const uint32_t flags = m->told | sink->told | (m->flags & MSG_CMSG_CLOEXEC);
	uint8_t __user *at = (uint8_t __user *)umsg;
	int err = sink->err;

	if (!err && h->name)
		err = sock_addr_put(&m->addr, h->name,
				    umsg + offsetof(struct linux_msghdr, namelen));
	if (!err)
		err = put_user_u32(flags, at + offsetof(struct linux_msghdr, flags));
	if (!err)
		err = put_user_u64(sink->used, at + offsetof(struct linux_msghdr, controllen));
	return err;
}

static long recv_header(struct socket *s, const struct file *f, uint64_t umsg, uint32_t flags)
{
	struct cmsg_sink sink = { 0 };
	struct socket_msg m = { .flags = with_nonblock(f, flags) };
	struct linux_msghdr h;
	struct uio uio;
	long ret = copy_from_user(&h, (const void __user *)umsg, sizeof(h));
	int err;

	if (!ret)
		ret = header_addr(&h);
	if (!ret)
		ret = uio_iovec(&uio, h.iov, h.iovlen);
	if (ret)
		return ret;
	m.uio = &uio;
	m.wants_addr = h.name != 0;
	sink.at = h.control;
	sink.left = h.control ? h.controllen : 0;
	ret = receive(s, &m);
	if (ret >= 0) {
		put_control(s, &m, &sink);
		err = put_header(umsg, &h, &m, &sink);
		ret = err ? err : ret;
	}
	if (m.fds)
		scm_free(m.fds);
	uio_done(&uio);
	return ret;
}

/* recvmsg(fd, msg, flags) */
long sys_recvmsg(const struct syscall_args *args)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	long ret;

	if (IS_ERR(s))
		return PTR_ERR(s);
	ret = recv_header(s, ref.file, args->a[1], (uint32_t)args->a[2]);
	socket_return(&ref);
	return ret;
}

/* Messages until there are @nr, none is there, or @deadline_ns; how many, or the first error. */
static long recv_many(struct socket *s, const struct file *f, const struct syscall_args *args,
		      uint64_t deadline_ns)
{
	const uint32_t nr = MIN((uint32_t)args->a[2], (uint32_t)UIO_MAXIOV);
	uint32_t flags = (uint32_t)args->a[3] & ~MSG_WAITFORONE;
	uint32_t done = 0;
	long ret = 0;

	while (done < nr) {
		const uint64_t at = args->a[1] + done * sizeof(struct linux_mmsghdr);

		ret = recv_header(s, f, at, flags);
		if (ret >= 0 &&
		    put_user_u32((uint32_t)ret,
				 (void __user *)(at + offsetof(struct linux_mmsghdr, len))))
			ret = -EFAULT;
		if (ret < 0)
			break;
		done++;
		if ((uint32_t)args->a[3] & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (time_now_ns() >= deadline_ns)
			break;
	}
	if (!done)
		return ret;
	/* The error of a later message is told by the next call. */
	if (ret < 0 && ret != -EAGAIN && ret != -ERESTARTSYS && ret != -EINTR)
		socket_shut(s, 0, (int)-ret);
	return (long)done;
}

/* recvmmsg(fd, msgs, nr, flags, timeout) */
long sys_recvmmsg(const struct syscall_args *args)
{
	uint64_t deadline_ns;
	struct socket_ref ref;
	struct socket *s;
	long ret;

	ret = user_timeout_get(args->a[4], &deadline_ns);
	if (ret)
		return ret;
	s = socket_borrow(args->a[0], &ref);
	if (IS_ERR(s))
		return PTR_ERR(s);
	/* The queue of errors is read whatever is pending. */
	ret = (args->a[3] & MSG_ERRQUEUE) ? 0 : -socket_take_error(s);
	if (!ret)
		ret = recv_many(s, ref.file, args, deadline_ns);
	socket_return(&ref);
	return ret;
}
