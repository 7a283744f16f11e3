/* SPDX-License-Identifier: MIT */
/*
 * Connected sockets: threads that wait for data or room leave when they are killed, whoever has the
 * lock and waits for a node with it; one that wants all of a long message gets it. A sender of
 * urgent bytes takes nothing from under a reader.
 */
#include <stdlib.h>

#include <abi/socket.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>
#include <processor/socket/inet_private.h>
#include <processor/socket/queue.h>
#include <processor/vfs/uio.h>

#include "ipc_fake.h"
#include "socket_fake.h"

#define MS  1000000ull
#define BIG 1000000u

static struct file *ends[2];
static uint8_t big[BIG];

struct mover {
	struct thread *thread;
	struct file *f;
	bool sends, user; /* @user: one byte of the slow page, else all of big[] */
	uint32_t flags;
	ssize_t ret;
	bool over; /* atomic */
};

static void mover_main(void *arg)
{
	struct mover *m = arg;
	struct socket_msg msg = { 0 };
	struct uio u;

	fake_task(1);
	uio_kernel(&u, big, sizeof(big));
	if (m->user) {
		fake_slow_wait();
		if (uio_user(&u, (uint64_t)(uintptr_t)fake_slow_page, 1))
			abort();
	}
	msg.uio = &u;
	msg.flags = m->flags;
	m->ret = m->sends ? socket_send(socket_of(m->f), &msg)
			  : socket_of(m->f)->ops->recvmsg(socket_of(m->f), &msg);
	__atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
}

static void mover_start(struct mover *m)
{
	m->thread = thread_create("mover", mover_main, m);
	if (IS_ERR(m->thread))
		abort();
}

static bool is_over_soon(const struct mover *m)
{
	for (int i = 0; i < 2000 && !__atomic_load_n(&m->over, __ATOMIC_ACQUIRE); i++)
		thread_sleep_ns(MS);
	return __atomic_load_n(&m->over, __ATOMIC_ACQUIRE);
}

static void wait_for_sleeper(struct waitqueue *wq)
{
	while (fake_sleepers(wq) == 0)
		thread_yield();
}

static ssize_t move_some(struct file *f, bool sends, size_t len)
{
	static uint8_t buf[BIG];

	return sends ? fake_send(f, buf, len, MSG_DONTWAIT) : fake_recv(f, buf, len, MSG_DONTWAIT);
}

/* The victim sleeps; another thread is in a copy and waits for a node. */
static void a_kill_needs_no_lock(struct ktest *t, bool sends)
{
	struct mover victim = { .sends = sends }, slow = { .sends = true, .user = true };
	struct waitqueue *wq;

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	victim.f = ends[0];
	slow.f = sends ? ends[0] : ends[1];
	wq = sends ? ends[0]->ops->poll_wait_out(ends[0]) : ends[0]->ops->poll_wait(ends[0]);
	if (sends) { /* the slow one copies to what it reads: only one that is full makes wait */
		EXPECT_GT(t, move_some(ends[0], true, BIG), 0);
		slow.sends = false;
		slow.f = ends[1];
	}
	fake_slow_begin();
	mover_start(&victim);
	wait_for_sleeper(wq);
	mover_start(&slow);
	fake_slow_go(NULL);
	thread_notify(victim.thread, THREAD_F_KILL);
	EXPECT_TRUE(t, is_over_soon(&victim));
	fake_slow_answer();
	thread_join(victim.thread);
	thread_join(slow.thread);
	EXPECT_EQ(t, victim.ret, -ERESTARTSYS);
	EXPECT_EQ(t, slow.ret, 1);
	file_put(ends[0]);
	file_put(ends[1]);
}

/* --- bytes that are lent ---------------------------------------------------------------- */

static int nr_ended;

static uint8_t lent[100];

/* The lender has the memory back, and uses it. */
static void loan_ended(struct sock_loan *loan)
{
	nr_ended++;
	memset(lent, 0xee, sizeof(lent));
}

static void lend_to(struct ktest *t, struct socket *s, struct sock_loan *loan)
{
	struct sock_msg *msg;

	for (uint32_t i = 0; i < sizeof(lent); i++)
		lent[i] = (uint8_t)i;
	*loan = (struct sock_loan){ .data = lent, .end = loan_ended };
	msg = sock_msg_lend(loan, sizeof(lent), kmem_current());
	ASSERT_FALSE(t, IS_ERR(msg));
	spin_lock(&s->lock);
	sock_queue_push_locked(s, msg);
	spin_unlock(&s->lock);
}

/* A loan ends with the call that reads, also of a part: the rest is the socket's then. */
static void bytes_are_lent_for_one_call(struct ktest *t)
{
	struct sock_loan loan;
	uint8_t buf[200];
	struct socket *s;

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	s = socket_of(ends[0]);
	nr_ended = 0;
	lend_to(t, s, &loan);
	EXPECT_EQ(t, fake_recv(ends[0], buf, 30, MSG_DONTWAIT), 30);
	EXPECT_EQ(t, nr_ended, 1);
	EXPECT_EQ(t, s->readable, 70u);
	EXPECT_EQ(t, fake_send(ends[1], "xy", 2, 0), 2);
	EXPECT_EQ(t, fake_recv(ends[0], buf + 30, 170, MSG_DONTWAIT), 72);
	for (uint32_t i = 0; i < sizeof(lent); i++)
		EXPECT_EQ(t, buf[i], (uint8_t)i);
	EXPECT_EQ(t, memcmp(buf + 100, "xy", 2), 0);
	/* All of it, a look at it, and none of it. */
	lend_to(t, s, &loan);
	EXPECT_EQ(t, fake_recv(ends[0], buf, 200, MSG_DONTWAIT), 100);
	EXPECT_EQ(t, nr_ended, 2);
	lend_to(t, s, &loan);
	EXPECT_EQ(t, fake_recv(ends[0], buf, 10, MSG_DONTWAIT | MSG_PEEK), 10);
	EXPECT_EQ(t, nr_ended, 3);
	EXPECT_EQ(t, fake_recv(ends[0], buf, 200, MSG_DONTWAIT), 100);
	EXPECT_EQ(t, buf[99], 99);
	lend_to(t, s, &loan);
	file_put(ends[0]);
	EXPECT_EQ(t, nr_ended, 4);
	file_put(ends[1]);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
}

static void a_reader_is_killed_asleep(struct ktest *t)
{
	a_kill_needs_no_lock(t, false);
}

static void a_writer_is_killed_asleep(struct ktest *t)
{
	a_kill_needs_no_lock(t, true);
}

/* Another reader has the lock of the receivers, and copies to a page whose node is silent. */
static void a_reader_is_killed_at_the_lock(struct ktest *t)
{
	struct mover victim = { 0 }, slow = { .user = true };

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	EXPECT_EQ(t, move_some(ends[1], true, 1), 1);
	victim.f = slow.f = ends[0];
	fake_slow_begin();
	mover_start(&slow);
	fake_slow_go(NULL);
	mover_start(&victim);
	thread_notify(victim.thread, THREAD_F_KILL);
	EXPECT_TRUE(t, is_over_soon(&victim));
	fake_slow_answer();
	thread_join(victim.thread);
	thread_join(slow.thread);
	EXPECT_EQ(t, victim.ret, -EINTR);
	EXPECT_EQ(t, slow.ret, 1);
	file_put(ends[0]);
	file_put(ends[1]);
}

/*
 * A receiver has the lock of the receivers in a copy to a page whose node is silent; the other end
 * shuts down and closes for good.
 */
static void an_end_waits_for_no_copy(struct ktest *t)
{
	static const uint32_t types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct mover slow = { .user = true };
		struct socket *other;

		fake_task(1);
		fake_pair(types[i], ends);
		EXPECT_EQ(t, move_some(ends[1], true, 1), 1);
		slow.f = ends[0];
		other = socket_of(ends[1]);
		fake_slow_begin();
		mover_start(&slow);
		fake_slow_go(NULL);
		EXPECT_EQ(t, other->ops->shutdown(other, SHUT_RDWR), 0);
		file_put(ends[1]);
		EXPECT_FALSE(t, slow.over);
		fake_slow_answer();
		thread_join(slow.thread);
		EXPECT_EQ(t, slow.ret, 1);
		if (types[i] == SOCK_DGRAM) /* as on Linux, no end is told of */
			EXPECT_EQ(t, move_some(ends[0], false, 1), -EAGAIN);
		else
			EXPECT_EQ(t, move_some(ends[0], false, 1), 0);
		file_put(ends[0]);
	}
}

/* A reader makes room by what it takes before it waits for more: the writer has to be told. */
static void one_that_waits_for_all_makes_room(struct ktest *t)
{
	struct mover writer = { .sends = true }, reader = { .flags = MSG_WAITALL };

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	writer.f = ends[0];
	reader.f = ends[1];
	mover_start(&writer);
	wait_for_sleeper(ends[0]->ops->poll_wait_out(ends[0]));
	mover_start(&reader);
	EXPECT_TRUE(t, is_over_soon(&reader));
	if (!reader.over)
		socket_shut(socket_of(ends[0]), SOCKET_SHUT_BOTH, 0);
	thread_join(writer.thread);
	thread_join(reader.thread);
	EXPECT_EQ(t, writer.ret, BIG);
	EXPECT_EQ(t, reader.ret, BIG);
	file_put(ends[0]);
	file_put(ends[1]);
}

/* --- urgent bytes: of TCP, here over a pair, whose queue is the same ---------------------- */

static ssize_t send_urgent(struct file *f, const void *buf, size_t len)
{
	struct socket_msg msg = { .flags = MSG_OOB | MSG_DONTWAIT };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)buf, len); /* it is only read */
	msg.uio = &u;
	return socket_send_stream(socket_of(f), &msg);
}

static ssize_t recv_urgent(struct file *f, void *buf)
{
	struct socket_msg msg = { .flags = MSG_OOB };
	struct uio u;

	uio_kernel(&u, buf, 1);
	msg.uio = &u;
	return tcp_urgent_receive(socket_of(f), &msg);
}

static void set_inline(struct socket *s, bool on)
{
	__atomic_store_n(&s->options,
			 on ? s->options | SOCKET_OOBINLINE
			    : s->options & ~(uint32_t)SOCKET_OOBINLINE,
			 __ATOMIC_RELEASE);
}

/*
 * A reader copies an urgent byte that is in line, to a page whose node is silent. Meanwhile the
 * option is taken back, and the next urgent byte comes.
 */
static void an_urgent_byte_that_is_read_stays(struct ktest *t)
{
	struct mover slow = { .user = true };
	struct socket *s;
	char b[2] = { 0 };

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	slow.f = ends[0];
	s = socket_of(ends[0]);
	set_inline(s, true);
	EXPECT_EQ(t, send_urgent(ends[1], "1", 1), 1);
	fake_slow_begin();
	mover_start(&slow);
	fake_slow_go(NULL);
	set_inline(s, false);
	EXPECT_EQ(t, send_urgent(ends[1], "2", 1), 1);
	fake_slow_answer();
	thread_join(slow.thread);
	EXPECT_EQ(t, slow.ret, 1);
	EXPECT_EQ(t, fake_slow_page[0], '1');
	EXPECT_EQ(t, s->readable, 1u);
	EXPECT_EQ(t, recv_urgent(ends[0], b), 1);
	EXPECT_EQ(t, b[0], '2');
	file_put(ends[0]);
	file_put(ends[1]);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
}

/* With the mark next to be read, another urgent byte follows what was sent after the first. */
static void the_mark_goes_on(struct ktest *t)
{
	struct socket *s;
	char b[8] = { 0 };

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	s = socket_of(ends[0]);
	EXPECT_EQ(t, send_urgent(ends[1], "1", 1), 1);
	EXPECT_EQ(t, send_urgent(ends[1], "2", 1), 1);
	EXPECT_TRUE(t, tcp_urgent_is_next(s));
	EXPECT_EQ(t, s->nr_queued, 1u);
	EXPECT_EQ(t, fake_send(ends[1], "ab", 2, 0), 2);
	EXPECT_EQ(t, send_urgent(ends[1], "c3", 2), 2);
	EXPECT_FALSE(t, tcp_urgent_is_next(s));
	EXPECT_EQ(t, fake_send(ends[1], "de", 2, 0), 2);
	EXPECT_EQ(t, recv_urgent(ends[0], b), 1);
	EXPECT_EQ(t, b[0], '3');
	EXPECT_EQ(t, fake_recv(ends[0], b, 8, MSG_DONTWAIT), 3);
	EXPECT_EQ(t, memcmp(b, "abc", 3), 0);
	EXPECT_TRUE(t, tcp_urgent_is_next(s));
	EXPECT_EQ(t, fake_recv(ends[0], b, 8, MSG_DONTWAIT | MSG_PEEK), 2);
	EXPECT_EQ(t, send_urgent(ends[1], "4", 1), 1);
	EXPECT_FALSE(t, tcp_urgent_is_next(s));
	EXPECT_EQ(t, s->readable, 3u);
	EXPECT_EQ(t, fake_recv(ends[0], b, 8, MSG_DONTWAIT), 2);
	EXPECT_EQ(t, memcmp(b, "de", 2), 0);
	EXPECT_EQ(t, recv_urgent(ends[0], b), 1);
	EXPECT_EQ(t, b[0], '4');
	EXPECT_EQ(t, fake_recv(ends[0], b, 8, MSG_DONTWAIT), -EAGAIN);
	EXPECT_EQ(t, s->nr_queued, 0u);
	file_put(ends[0]);
	file_put(ends[1]);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
}

#define NR_URGENT 20000

static void urgent_main(void *arg)
{
	struct mover *m = arg;

	fake_task(1);
	for (int i = 0; i < NR_URGENT; i++) {
		ssize_t ret;

		while ((ret = send_urgent(m->f, "u", 1)) == -EAGAIN)
			thread_yield();
		if (ret != 1)
			abort();
	}
	__atomic_store_n(&m->over, true, __ATOMIC_RELEASE);
}

/* Readers take and look, as fast as the marks come. */
static void a_reader_runs_into_the_mark(struct ktest *t)
{
	struct mover sender = { 0 };
	struct socket *s;
	char b[8];

	fake_task(1);
	fake_pair(SOCK_STREAM, ends);
	s = socket_of(ends[0]);
	sender.f = ends[1];
	sender.thread = thread_create("sender", urgent_main, &sender);
	ASSERT_FALSE(t, IS_ERR(sender.thread));
	while (!__atomic_load_n(&sender.over, __ATOMIC_ACQUIRE)) {
		(void)fake_recv(ends[0], b, sizeof(b), MSG_DONTWAIT | MSG_PEEK);
		(void)fake_recv(ends[0], b, sizeof(b), MSG_DONTWAIT);
	}
	thread_join(sender.thread);
	EXPECT_EQ(t, fake_recv(ends[0], b, sizeof(b), MSG_DONTWAIT), -EAGAIN);
	EXPECT_EQ(t, s->nr_queued, 0u);
	EXPECT_EQ(t, s->readable, 0u);
	file_put(ends[0]);
	file_put(ends[1]);
	EXPECT_EQ(t, kmem_count(KMEM_SOCKET_BYTES), 0);
}

static const struct ktest_case cases[] = {
	KTEST(a_reader_is_killed_asleep),         KTEST(a_writer_is_killed_asleep),
	KTEST(a_reader_is_killed_at_the_lock),    KTEST(an_end_waits_for_no_copy),
	KTEST(one_that_waits_for_all_makes_room), KTEST(bytes_are_lent_for_one_call),
	KTEST(an_urgent_byte_that_is_read_stays), KTEST(the_mark_goes_on),
	KTEST(a_reader_runs_into_the_mark),       { 0 },
};
static const struct ktest_suite suite = { .name = "socket.waits", .cases = cases };
KTEST_SUITE(suite);
