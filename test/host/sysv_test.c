/* SPDX-License-Identifier: MIT */
/*
 * System V semaphores and messages between threads: nothing is lost, all or nothing, what is
 * undone, and what a program is charged.
 */
#include <stdlib.h>

#include <abi/ipc.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/ipc/ipc_ns.h>
#include <processor/ns/ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "ipc_fake.h"

/* --- namespaces, without files, segments and queues of POSIX ------------------------------- */

static struct ns *fake_ipc_ns; /* that of all tasks; NULL: the first one */

struct ns *ns_current(enum ns_kind kind)
{
	return fake_ipc_ns ? fake_ipc_ns : ipc_first;
}

static void release_ns(struct inode *inode)
{
	struct ns *ns = ns_of_inode(inode);

	ns->free(ns);
}

const struct inode_ops nsfs_inode_ops = { .name = "namespace", .release = release_ns };
struct fs_type nsfs_type = { .name = "nsfs" };
const struct sysv_ops shm_ops;

void mqueue_end(struct ipc_ns *ns)
{
}

static long semget(int32_t key, int nr, int flags)
{
	return sys_semget(
		&(struct syscall_args){ .a = { (uint32_t)key, (uint32_t)nr, (uint32_t)flags } });
}

static long semop(long id, const struct linux_sembuf *ops, unsigned int nr)
{
	return sys_semop(&(struct syscall_args){ .a = { (uint64_t)id, (uintptr_t)ops, nr } });
}

static long semctl(long id, int num, int cmd, uint64_t arg)
{
	return sys_semctl(
		&(struct syscall_args){ .a = { (uint64_t)id, (uint32_t)num, (uint32_t)cmd, arg } });
}

static long msgget(void)
{
	return sys_msgget(&(struct syscall_args){ .a = { IPC_PRIVATE, 0600 } });
}

struct text {
	int64_t type;
	uint8_t text[64];
};

static long msgsnd(long id, const struct text *m, size_t len, int flags)
{
	return sys_msgsnd(&(struct syscall_args){
		.a = { (uint64_t)id, (uintptr_t)m, len, (uint32_t)flags } });
}

static long msgrcv(long id, struct text *m, size_t len, int64_t type, int flags)
{
	return sys_msgrcv(&(struct syscall_args){
		.a = { (uint64_t)id, (uintptr_t)m, len, (uint64_t)type, (uint32_t)flags } });
}

static long msgctl(long id, int cmd, void *buf)
{
	return sys_msgctl(
		&(struct syscall_args){ .a = { (uint64_t)id, (uint32_t)cmd, (uintptr_t)buf } });
}

/* --- ids ------------------------------------------------------------------------------------- */

static void an_old_id_names_nothing(struct ktest *t)
{
	long first, second;

	fake_task(0);
	first = semget(77, 1, IPC_CREAT | 0600);
	EXPECT_TRUE(t, first >= 0);
	EXPECT_EQ(t, semget(77, 1, 0600), first);
	EXPECT_EQ(t, semget(77, 1, IPC_CREAT | IPC_EXCL | 0600), -EEXIST);
	EXPECT_EQ(t, semget(77, 2, 0600), -EINVAL);
	EXPECT_EQ(t, semget(78, 2, 0600), -ENOENT);
	EXPECT_EQ(t, semctl(first, 0, IPC_RMID, 0), 0);
	second = semget(77, 1, IPC_CREAT | 0600);
	EXPECT_TRUE(t, second >= 0 && second != first);
	EXPECT_EQ(t, second % (long)SYSV_IDS_MAX, first % (long)SYSV_IDS_MAX);
	EXPECT_EQ(t, semctl(first, 0, GETVAL, 0), -EINVAL);
	EXPECT_EQ(t, semctl(second, 0, IPC_RMID, 0), 0);
	/* As many rounds as there are: the number stays a good one. */
	for (int i = 0; i < 70000; i++) {
		first = semget(IPC_PRIVATE, 1, 0600);
		ASSERT_TRUE(t, first >= 0 && first <= INT32_MAX && first != second);
		second = first;
		ASSERT_EQ(t, semctl(first, 0, IPC_RMID, 0), 0);
	}
}

static void limits_hold(struct ktest *t)
{
	const struct sysv_limits before = *sysv_limits();
	long ids[3];

	fake_task(0);
	sysv_limits()->semmni = 2;
	sysv_limits()->semmns = 10;
	ids[0] = semget(IPC_PRIVATE, 6, 0600);
	EXPECT_EQ(t, semget(IPC_PRIVATE, 5, 0600), -ENOSPC);
	ids[1] = semget(IPC_PRIVATE, 4, 0600);
	EXPECT_TRUE(t, ids[0] >= 0 && ids[1] >= 0);
	sysv_limits()->semmns = 1000;
	EXPECT_EQ(t, semget(IPC_PRIVATE, 1, 0600), -ENOSPC);
	EXPECT_EQ(t, semctl(ids[0], 0, IPC_RMID, 0), 0);
	EXPECT_EQ(t, semctl(ids[1], 0, IPC_RMID, 0), 0);
	*sysv_limits() = before;
}

static void the_next_id_is_chosen(struct ktest *t)
{
	const int32_t want = 7 * (int32_t)SYSV_IDS_MAX + 123;
	long usual, ids[3];

	fake_task(0);
	usual = semget(IPC_PRIVATE, 1, 0600);
	sysv_next_ids()->sem = want;
	ids[0] = semget(IPC_PRIVATE, 1, 0600);
	EXPECT_EQ(t, ids[0], want);
	EXPECT_EQ(t, sysv_next_ids()->sem, -1);
	/* Taken: the place behind it, of the same round. */
	sysv_next_ids()->sem = want;
	ids[1] = semget(IPC_PRIVATE, 1, 0600);
	EXPECT_EQ(t, ids[1], want + 1);
	ids[2] = semget(IPC_PRIVATE, 1, 0600);
	EXPECT_EQ(t, ids[2], usual + 1);
	EXPECT_EQ(t, semctl((int)usual, 0, IPC_RMID, 0), 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(t, semctl((int)ids[i], 0, IPC_RMID, 0), 0);
}

/* --- semaphores ------------------------------------------------------------------------------ */

#define THREADS 4
#define ROUNDS  3000

struct philosopher {
	struct thread *th;
	long id;
	int number;
	int *eating; /* one for each fork */
	int bad;
};

/* Both forks at once: no two neighbours eat, and nobody starves or waits for ever. */
static void philosopher_main(void *arg)
{
	struct philosopher *p = arg;
	const uint16_t left = (uint16_t)p->number, right = (uint16_t)((p->number + 1) % THREADS);
	const struct linux_sembuf take[] = { { left, -1, 0 }, { right, -1, 0 } };
	const struct linux_sembuf give[] = { { left, 1, 0 }, { right, 1, 0 } };

	fake_task(0);
	for (int i = 0; i < ROUNDS; i++) {
		p->bad += semop(p->id, take, 2) != 0;
		p->bad += __atomic_fetch_add(&p->eating[left], 1, __ATOMIC_RELAXED) != 0;
		p->bad += __atomic_fetch_add(&p->eating[right], 1, __ATOMIC_RELAXED) != 0;
		__atomic_fetch_sub(&p->eating[left], 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&p->eating[right], 1, __ATOMIC_RELAXED);
		p->bad += semop(p->id, give, 2) != 0;
	}
}

static void philosophers_eat(struct ktest *t)
{
	struct philosopher p[THREADS];
	const struct linux_sembuf one[] = { { 0, 1, 0 }, { 1, 1, 0 }, { 2, 1, 0 }, { 3, 1, 0 } };
	int eating[THREADS] = { 0 };
	uint16_t values[THREADS];
	long id;

	fake_task(0);
	id = semget(IPC_PRIVATE, THREADS, 0600);
	EXPECT_EQ(t, semop(id, one, THREADS), 0);
	for (int i = 0; i < THREADS; i++) {
		p[i] = (struct philosopher){ .id = id, .number = i, .eating = eating };
		p[i].th = thread_create("philosopher", philosopher_main, &p[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		thread_join(p[i].th);
		EXPECT_EQ(t, p[i].bad, 0);
	}
	EXPECT_EQ(t, semctl(id, 0, GETALL, (uintptr_t)values), 0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(t, values[i], 1);
	EXPECT_EQ(t, semctl(id, 0, IPC_RMID, 0), 0);
}

static void the_last_of_a_list_takes_back(struct ktest *t)
{
	const struct linux_sembuf take[] = { { 0, -3, SEM_UNDO }, { 1, 2, SEM_UNDO } };
	const struct linux_sembuf more[] = { { 1, 32767, SEM_UNDO } };
	struct task *me, other = { 0 };
	long id, gone;

	fake_task(0);
	me = task_current();
	other.process = me->process;
	id = semget(IPC_PRIVATE, 2, 0600);
	gone = semget(IPC_PRIVATE, 2, 0600);
	EXPECT_EQ(t, semctl(id, 0, SETVAL, 5), 0);
	EXPECT_EQ(t, semctl(gone, 0, SETVAL, 5), 0);
	EXPECT_EQ(t, semop(gone, take, 2), 0);
	EXPECT_EQ(t, semctl(gone, 0, IPC_RMID, 0), 0);
	EXPECT_EQ(t, semop(id, take, 2), 0);
	EXPECT_EQ(t, semop(id, more, 1), -ERANGE);
	EXPECT_EQ(t, sem_undos_share(&other, me), 0);
	sem_undos_put(me);
	EXPECT_EQ(t, semctl(id, 0, GETVAL, 0), 2);
	EXPECT_EQ(t, semctl(id, 1, GETVAL, 0), 2);
	sem_undos_put(&other);
	EXPECT_EQ(t, semctl(id, 0, GETVAL, 0), 5);
	EXPECT_EQ(t, semctl(id, 1, GETVAL, 0), 0);
	EXPECT_EQ(t, semctl(id, 0, IPC_RMID, 0), 0);
}

/* --- messages -------------------------------------------------------------------------------- */

struct talker {
	struct thread *th;
	long id;
	int64_t type;
	int bad;
};

static void talker_main(void *arg)
{
	struct talker *k = arg;
	struct text m = { .type = k->type };

	fake_task(0);
	for (int i = 0; i < ROUNDS; i++) {
		memcpy(m.text, &i, sizeof(i));
		k->bad += msgsnd(k->id, &m, sizeof(m.text), 0) != 0;
	}
}

static void listener_main(void *arg)
{
	struct talker *k = arg;
	struct text m;
	int n;

	fake_task(0);
	for (int i = 0; i < ROUNDS; i++) {
		k->bad += msgrcv(k->id, &m, sizeof(m.text), k->type, 0) != sizeof(m.text);
		memcpy(&n, m.text, sizeof(n));
		k->bad += n != i || m.type != k->type;
	}
}

/* Each type in its order, through a queue with room for five messages. */
static void messages_arrive_in_order(struct ktest *t)
{
	struct talker k[2 * THREADS];
	struct linux_msqid64_ds ds;
	long id;

	fake_task(0);
	id = msgget();
	EXPECT_EQ(t, msgctl(id, IPC_STAT, &ds), 0);
	ds.qbytes = 5 * sizeof(((struct text *)0)->text);
	EXPECT_EQ(t, msgctl(id, IPC_SET, &ds), 0);
	for (int i = 0; i < 2 * THREADS; i++) {
		k[i] = (struct talker){ .id = id, .type = 1 + i / 2 };
		k[i].th = thread_create("talker", i % 2 ? listener_main : talker_main, &k[i]);
	}
	for (int i = 0; i < 2 * THREADS; i++) {
		thread_join(k[i].th);
		EXPECT_EQ(t, k[i].bad, 0);
	}
	EXPECT_EQ(t, msgctl(id, IPC_STAT, &ds), 0);
	EXPECT_EQ(t, ds.qnum, 0);
	EXPECT_EQ(t, ds.cbytes, 0);
	EXPECT_EQ(t, msgctl(id, IPC_RMID, NULL), 0);
}

/* A program at its limit gets ENOMEM, and has everything back with the queue. */
static void messages_are_charged(struct ktest *t)
{
	struct text m = { .type = 1 };
	struct linux_msqid64_ds ds;
	struct kmem_account *a;
	long ret, id;

	kmem_account_set_limits(1 << 16, 0);
	a = fake_account = kmem_account_create();
	fake_task(0);
	id = msgget();
	EXPECT_TRUE(t, id >= 0);
	EXPECT_EQ(t, msgctl(id, IPC_STAT, &ds), 0);
	ds.qbytes = 1 << 20;
	EXPECT_EQ(t, msgctl(id, IPC_SET, &ds), 0);
	do
		ret = msgsnd(id, &m, sizeof(m.text), IPC_NOWAIT);
	while (!ret);
	EXPECT_EQ(t, ret, -ENOMEM);
	EXPECT_TRUE(t, kmem_charged(a) > 1 << 15);
	EXPECT_EQ(t, msgctl(id, IPC_RMID, NULL), 0);
	EXPECT_EQ(t, kmem_charged(a), 0);
	fake_account = NULL;
	fake_task(0);
	kmem_account_put(a);
	kmem_account_set_limits(UINT64_MAX, 0);
}

/* Namespaces have keys and ids of their own, and one that ends takes all of its objects along. */
static void the_end_of_a_namespace_takes_all(struct ktest *t)
{
	const struct linux_sembuf up = { .op = 1, .flg = SEM_UNDO };
	struct text m = { .type = 1 };
	struct kmem_account *a;
	struct ns *ns;
	long outside, set, queue;

	a = fake_account = kmem_account_create();
	fake_task(0);
	outside = semget(7, 1, IPC_CREAT | 0600);
	EXPECT_TRUE(t, outside >= 0);
	ns = ipc_make(ipc_first, NULL);
	ASSERT_FALSE(t, IS_ERR(ns));
	fake_ipc_ns = ns;
	EXPECT_EQ(t, semget(7, 1, 0600), -ENOENT);
	set = semget(7, 2, IPC_CREAT | 0600);
	queue = msgget();
	EXPECT_EQ(t, set, 0);
	EXPECT_EQ(t, queue, 0);
	EXPECT_EQ(t, semop(set, &up, 1), 0);
	EXPECT_EQ(t, msgsnd(queue, &m, sizeof(m.text), 0), 0);
	ns_put(ns);
	fake_ipc_ns = NULL;
	/* The list of what is to be taken back has the set, and that the namespace's memory. */
	EXPECT_TRUE(t, kmem_charged(a) > 0);
	sem_undos_put(task_current());
	EXPECT_EQ(t, semctl(outside, 0, GETVAL, 0), 0);
	EXPECT_EQ(t, semctl(outside, 0, IPC_RMID, 0), 0);
	EXPECT_EQ(t, kmem_charged(a), 0);
	fake_account = NULL;
	fake_task(0);
	kmem_account_put(a);
}

static const struct ktest_case sysv_cases[] = {
	KTEST(an_old_id_names_nothing),
	KTEST(limits_hold),
	KTEST(the_next_id_is_chosen),
	KTEST(philosophers_eat),
	KTEST(the_last_of_a_list_takes_back),
	KTEST(messages_arrive_in_order),
	KTEST(messages_are_charged),
	KTEST(the_end_of_a_namespace_takes_all),
	{ 0 },
};
static const struct ktest_suite sysv_suite = { .name = "ipc.sysv", .cases = sysv_cases };
KTEST_SUITE(sysv_suite);
