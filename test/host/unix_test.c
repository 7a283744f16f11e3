/* SPDX-License-Identifier: MIT */
/*
 * AF_UNIX beyond what a guest program can show: connections that race with the end of a listener,
 * descriptors on their way, cycles of them, and that nothing is left behind.
 */
#include <stdlib.h>
#include <string.h>

#include <abi/poll.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/socket/cmsg.h>
#include <processor/socket/queue.h>
#include <processor/socket/scm.h>
#include <processor/socket/unix_private.h>
#include <processor/vfs/uio.h>

#include "ipc_fake.h"
#include "socket_fake.h"

static int64_t memory_before;

static void begin(void)
{
	fake_task(0);
	memory_before = sock_memory();
}

/* Send the file @what from @f. */
static ssize_t send_file(struct file *f, struct file *what)
{
	struct socket_msg m = { 0 };
	const int fd = 0;
	char byte = 'x';
	struct uio u;
	ssize_t ret;

	fake_fds[0] = what;
	if (scm_create(&fd, 1, &m.fds))
		return -1;
	fake_fds[0] = NULL;
	uio_kernel(&u, &byte, 1);
	m.uio = &u;
	ret = socket_send(socket_of(f), &m);
	if (m.fds)
		scm_free(m.fds);
	return ret;
}

static void a_cycle_is_collected(struct ktest *t)
{
	struct file *a[2], *b[2], *other;

	begin();
	fake_pair(SOCK_STREAM, a);
	fake_pair(SOCK_DGRAM, b);
	EXPECT_EQ(t, send_file(a[0], a[0]), 1); /* in its own peer's queue */
	EXPECT_EQ(t, send_file(a[0], a[1]), 1); /* in its own queue */
	EXPECT_EQ(t, send_file(b[0], b[1]), 1);
	EXPECT_EQ(t, send_file(b[1], a[1]), 1);
	file_put(a[0]);
	file_put(a[1]);
	EXPECT_EQ(t, scm_inflight(), 4u);
	file_put(b[0]); /* the close of any socket looks for cycles: that of a is gone */
	EXPECT_EQ(t, scm_inflight(), 1u);
	file_put(b[1]);
	other = fake_socket(SOCK_STREAM);
	file_put(other);
	EXPECT_EQ(t, scm_inflight(), 0u);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

/* A socket that is closed by the collector has sets in its queue that are to be dropped as well. */
static void a_cycle_of_two_is_collected(struct ktest *t)
{
	struct file *a[2], *b[2];

	begin();
	fake_pair(SOCK_STREAM, a);
	fake_pair(SOCK_STREAM, b);
	EXPECT_EQ(t, send_file(a[0], b[1]), 1); /* in the queue of a[1] */
	EXPECT_EQ(t, send_file(a[0], b[0]), 1);
	EXPECT_EQ(t, send_file(b[0], a[1]), 1); /* in the queue of b[1] */
	EXPECT_EQ(t, send_file(b[0], a[0]), 1);
	for (int i = 0; i < 2; i++) {
		file_put(a[i]);
		file_put(b[i]);
	}
	EXPECT_EQ(t, scm_inflight(), 4u);
	scm_collect();
	EXPECT_EQ(t, scm_inflight(), 0u);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

static void what_is_reachable_stays(struct ktest *t)
{
	struct file *a[2], *b[2], *got;
	struct socket_msg m = { 0 };
	char byte;
	struct uio u;

	begin();
	fake_pair(SOCK_STREAM, a);
	fake_pair(SOCK_STREAM, b);
	EXPECT_EQ(t, fake_send(b[0], "y", 1, 0), 1);
	EXPECT_EQ(t, send_file(b[0], b[1]), 1); /* a cycle, but reachable by the next */
	EXPECT_EQ(t, send_file(a[0], b[1]), 1);
	file_put(b[0]);
	file_put(b[1]);
	scm_collect();
	EXPECT_EQ(t, scm_inflight(), 2u);
	uio_kernel(&u, &byte, 1);
	m.uio = &u;
	EXPECT_EQ(t, socket_of(a[1])->ops->recvmsg(socket_of(a[1]), &m), 1);
	ASSERT_TRUE(t, m.fds && m.fds->nr == 1);
	got = m.fds->files[0];
	EXPECT_EQ(t, fake_recv(got, &byte, 1, MSG_DONTWAIT), 1);
	EXPECT_EQ(t, byte, 'y');
	scm_free(m.fds);
	scm_collect();
	EXPECT_EQ(t, scm_inflight(), 0u);
	file_put(a[0]);
	file_put(a[1]);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

/* A chain in which each socket lies in the queue of the next is closed without deep recursion. */
static void a_long_chain_is_closed(struct ktest *t)
{
	struct file *last = fake_socket(SOCK_DGRAM);

	begin();
	for (int i = 0; i < 400; i++) {
		struct file *p[2];

		fake_pair(SOCK_DGRAM, p);
		EXPECT_EQ(t, send_file(p[0], last), 1);
		file_put(last);
		file_put(p[0]);
		last = p[1];
	}
	EXPECT_EQ(t, scm_inflight(), 400u);
	file_put(last);
	EXPECT_EQ(t, scm_inflight(), 0u);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

/* Sets in a backlog are kept by its listener, and go with it. */
static void a_backlog_with_descriptors(struct ktest *t)
{
	const struct sock_addr name = fake_name("listener");
	struct file *l = fake_socket(SOCK_STREAM), *c = fake_socket(SOCK_STREAM);
	struct socket *s = socket_of(l), *cs = socket_of(c);
	char byte;

	begin();
	ASSERT_EQ(t, s->ops->bind(s, &name), 0);
	ASSERT_EQ(t, cs->ops->connect(cs, &name, true), -ECONNREFUSED);
	ASSERT_EQ(t, s->ops->listen(s, 0), 0);
	ASSERT_EQ(t, cs->ops->connect(cs, &name, true), 0);
	EXPECT_EQ(t, cs->ops->connect(cs, &name, true), -EISCONN);
	EXPECT_EQ(t, send_file(c, l), 1); /* the listener in its own backlog */
	file_put(l);
	scm_collect();
	EXPECT_EQ(t, scm_inflight(), 0u);
	EXPECT_EQ(t, fake_recv(c, &byte, 1, MSG_DONTWAIT), -ECONNRESET);
	EXPECT_EQ(t, fake_send(c, "x", 1, MSG_NOSIGNAL), -EPIPE);
	file_put(c);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

static void a_backlog_is_full(struct ktest *t)
{
	const struct sock_addr name = fake_name("full");
	struct file *l = fake_socket(SOCK_SEQPACKET), *c[3];
	struct socket *s = socket_of(l), *child;

	begin();
	ASSERT_EQ(t, s->ops->bind(s, &name), 0);
	ASSERT_EQ(t, s->ops->listen(s, 1), 0);
	for (int i = 0; i < 3; i++) {
		c[i] = fake_socket(SOCK_SEQPACKET);
		EXPECT_EQ(t, socket_of(c[i])->ops->connect(socket_of(c[i]), &name, true),
			  i < 2 ? 0 : -EAGAIN);
	}
	EXPECT_EQ(t, s->ops->poll(s), POLLIN | POLLRDNORM);
	child = socket_accept(s, true);
	ASSERT_TRUE(t, !IS_ERR(child));
	EXPECT_EQ(t, socket_of(c[2])->ops->connect(socket_of(c[2]), &name, true), 0);
	socket_drop(child);
	EXPECT_EQ(t, socket_of(c[0])->ops->poll(socket_of(c[0])) & POLLHUP, POLLHUP);
	file_put(l);
	for (int i = 0; i < 3; i++)
		file_put(c[i]);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

static void control_data_is_checked(struct ktest *t)
{
	static const struct {
		uint64_t len;
		int32_t level, type;
		size_t total;
		int want;
	} rows[] = {
		{ 20, SOL_SOCKET, SCM_RIGHTS, 24, 0 },
		{ 16, SOL_SOCKET, SCM_RIGHTS, 16, 0 },
		{ 15, SOL_SOCKET, SCM_RIGHTS, 24, -EINVAL },
		{ 25, SOL_SOCKET, SCM_RIGHTS, 24, -EINVAL },
		{ UINT64_MAX, SOL_SOCKET, SCM_RIGHTS, 24, -EINVAL },
		{ 28, SOL_SOCKET, SCM_CREDENTIALS, 32, 0 },
		{ 24, SOL_SOCKET, SCM_CREDENTIALS, 32, -EINVAL },
		{ 20, SOL_SOCKET, 77, 24, -EINVAL },
		{ 20, 99, 77, 24, 0 },
		{ 16 + 4 * 253, SOL_SOCKET, SCM_RIGHTS, 16 + 4 * 253, 0 },
		{ 16 + 4 * 254, SOL_SOCKET, SCM_RIGHTS, 16 + 4 * 254, -EINVAL },
	};
	static uint8_t buf[2048];
	struct cmsg_request req;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct linux_cmsghdr h = { rows[i].len, rows[i].level, rows[i].type };

		memcpy(buf, &h, sizeof(h));
		EXPECT_EQ(t, cmsg_decode(buf, rows[i].total, AF_UNIX, &req), rows[i].want);
	}
}

/* --- datagram sockets that several threads connect ----------------------------------- */

#define NR_RECEIVERS 3
#define NR_ROUNDS    200

static struct file *caller;
static unsigned int nr_ready; /* atomic: threads that are about to begin */
static const char *const receivers[NR_RECEIVERS] = { "r0", "r1", "r2" };

static void connect_thrice(void *arg)
{
	const struct sock_addr name = fake_name(arg);
	struct socket *s = socket_of(caller);

	fake_task(1);
	__atomic_add_fetch(&nr_ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&nr_ready, __ATOMIC_ACQUIRE) < NR_RECEIVERS)
		thread_yield();
	for (int i = 0; i < 3; i++) {
		if (s->ops->connect(s, &name, true))
			abort();
	}
}

/* How often @s is in the list of senders of @to. */
static unsigned int times_listed(struct socket *to, const struct socket *s)
{
	const struct socket *sender;
	unsigned int nr = 0;

	spin_lock(&to->lock);
	list_for_each_entry(sender, &to->senders, sender_link)
		nr += sender == s;
	spin_unlock(&to->lock);
	return nr;
}

static void connect_at_once(void)
{
	struct thread *threads[NR_RECEIVERS];

	nr_ready = 0;
	for (int i = 0; i < NR_RECEIVERS; i++) {
		threads[i] =
			thread_create("caller", connect_thrice, (void *)(uintptr_t)receivers[i]);
		if (IS_ERR(threads[i]))
			abort();
	}
	for (int i = 0; i < NR_RECEIVERS; i++)
		thread_join(threads[i]);
}

/* Each peer's list has a lock of its own; a socket is in the list of its peer, and in no other. */
static void a_sender_is_in_one_list(struct ktest *t)
{
	struct file *r[NR_RECEIVERS];
	struct socket *s;

	begin();
	caller = fake_socket(SOCK_DGRAM);
	s = socket_of(caller);
	for (int i = 0; i < NR_RECEIVERS; i++) {
		const struct sock_addr name = fake_name(receivers[i]);

		r[i] = fake_socket(SOCK_DGRAM);
		ASSERT_EQ(t, socket_of(r[i])->ops->bind(socket_of(r[i]), &name), 0);
	}
	for (int n = 0; n < NR_ROUNDS; n++) {
		connect_at_once();
		for (int i = 0; i < NR_RECEIVERS; i++)
			ASSERT_EQ(t, times_listed(socket_of(r[i]), s), s->peer == socket_of(r[i]));
	}
	file_put(caller);
	for (int i = 0; i < NR_RECEIVERS; i++)
		file_put(r[i]);
}

/* A datagram to a receiver that is gone ends that connection, and not one made meanwhile. */
static void a_dead_peer_is_left(struct ktest *t)
{
	const struct sock_addr name = fake_name("gone");
	struct file *r = fake_socket(SOCK_DGRAM);
	struct socket *s;

	begin();
	caller = fake_socket(SOCK_DGRAM);
	s = socket_of(caller);
	ASSERT_EQ(t, socket_of(r)->ops->bind(socket_of(r), &name), 0);
	ASSERT_EQ(t, s->ops->connect(s, &name, true), 0);
	file_put(r);
	EXPECT_EQ(t, fake_send(caller, "x", 1, MSG_DONTWAIT), -ECONNREFUSED);
	EXPECT_EQ(t, fake_send(caller, "x", 1, MSG_DONTWAIT), -ENOTCONN);
	file_put(caller);
}

/* --- a datagram socket whose queue is full ------------------------------------------------- */

static struct file *full;
static bool has_sent, has_received; /* atomic */

static void sends_one(void *arg)
{
	fake_task(1);
	if (fake_send(caller, "x", 1, 0) != 1)
		abort();
	__atomic_store_n(&has_sent, true, __ATOMIC_RELEASE);
}

static void receives_one(void *arg)
{
	char byte;

	fake_task(1);
	if (fake_recv(full, &byte, 1, 0) != 1)
		abort();
	__atomic_store_n(&has_received, true, __ATOMIC_RELEASE);
}

static bool soon(const bool *flag)
{
	for (int i = 0; i < 2000 && !__atomic_load_n(flag, __ATOMIC_ACQUIRE); i++)
		thread_sleep_ns(1000000);
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void full_begin(struct ktest *t)
{
	const struct sock_addr name = fake_name("full");

	begin();
	full = fake_socket(SOCK_DGRAM);
	caller = fake_socket(SOCK_DGRAM);
	has_sent = has_received = false;
	ASSERT_EQ(t, socket_of(full)->ops->bind(socket_of(full), &name), 0);
	ASSERT_EQ(t, socket_of(caller)->ops->connect(socket_of(caller), &name, true), 0);
}

/* Fill the queue, and have a sender wait for room. */
static struct thread *full_wait(struct ktest *t)
{
	struct thread *th;
	uint32_t nr = 0;

	while (fake_send(caller, "x", 1, MSG_DONTWAIT) == 1)
		nr++;
	EXPECT_EQ(t, nr, UNIX_DGRAM_QUEUE + 1);
	th = thread_create("sender", sends_one, NULL);
	while (!fake_sleepers(&socket_of(full)->room_wait))
		thread_yield();
	return th;
}

static void full_end(struct ktest *t, struct thread *sender)
{
	EXPECT_TRUE(t, soon(&has_sent));
	socket_wake(&socket_of(full)->room_wait);
	thread_join(sender);
	file_put(caller);
	file_put(full);
	EXPECT_EQ(t, sock_memory(), memory_before);
}

/* It fills after a call to receive has begun: the sender is woken all the same. */
static void a_queue_fills_under_a_receiver(struct ktest *t)
{
	struct thread *sender, *receiver;
	struct socket *s;

	full_begin(t);
	s = socket_of(full);
	receiver = thread_create("receiver", receives_one, NULL);
	while (!fake_sleepers(&s->rd_wait))
		thread_yield();
	mutex_lock(&s->recv_lock);
	sender = full_wait(t);
	mutex_unlock(&s->recv_lock);
	EXPECT_TRUE(t, soon(&has_received));
	thread_join(receiver);
	full_end(t, sender);
}

static const struct ktest_case cases[] = {
	KTEST(a_cycle_is_collected),
	KTEST(a_cycle_of_two_is_collected),
	KTEST(what_is_reachable_stays),
	KTEST(a_long_chain_is_closed),
	KTEST(a_backlog_with_descriptors),
	KTEST(a_backlog_is_full),
	KTEST(control_data_is_checked),
	KTEST(a_sender_is_in_one_list),
	KTEST(a_dead_peer_is_left),
	KTEST(a_queue_fills_under_a_receiver),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.unix", .cases = cases };
KTEST_SUITE(suite);
