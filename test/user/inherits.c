/* SPDX-License-Identifier: MIT */
/*
 * Mutexes that lend priority, as futex(2) has them and as the C library makes them: answers, who
 * gets the mutex, how its owner runs meanwhile, and owners that end. Must be root. Prints the same
 * as on Linux.
 */
#include "alarms.h"
#include "call.h"
#include "state.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define PI2 13 /* FUTEX_LOCK_PI2, which older headers do not know */

static uint32_t *words; /* in memory that processes share */

static long futex(uint32_t *a, int op, uint32_t val, const void *timeout, uint32_t *b,
		  uint32_t val3)
{
	return syscall(SYS_futex, a, op, val, timeout, b, val3);
}

static long lock(uint32_t *word)
{
	return futex(word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
}

static long unlock(uint32_t *word)
{
	return futex(word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
}

static uint32_t tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/* A word, without its number. */
static const char *of(uint32_t word)
{
	static char text[64];
	const uint32_t nr = word & FUTEX_TID_MASK;

	snprintf(text, sizeof(text), "%s%s%s",
		 !nr           ? "free"
		 : nr == tid() ? "mine"
			       : "another's",
		 word & FUTEX_WAITERS ? ", waiters" : "",
		 word & FUTEX_OWNER_DIED ? ", owner died" : "");
	return text;
}

static void call_on(const char *what, uint32_t *word, long ret)
{
	const int err = errno;

	printf("%s: %ld%s%s, %s\n", what, ret, ret < 0 ? " " : "",
	       ret < 0 ? strerrorname_np(err) : "", of(*word));
}

/* How task @id runs, as /proc/<pid>/stat tells it. */
static int priority_of(uint32_t id)
{
	char text[1024], *at;
	ssize_t n;
	int fd;

	snprintf(text, sizeof(text), "/proc/self/task/%u/stat", id);
	fd = open(text, O_RDONLY);
	CHECK(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	close(fd);
	text[n] = '\0';
	at = strrchr(text, ')') + 2;
	for (int i = 3; i < 18; i++)
		at = strchr(at, ' ') + 1;
	return atoi(at);
}

/* Wait until it runs like that: then a waiter is in line. */
static void await_priority(const char *what, uint32_t id, int want)
{
	for (int i = 0; i < 2000 && priority_of(id) != want; i++)
		usleep(1000);
	printf("%s: priority %d\n", what, priority_of(id));
}

/* --- one thread ----------------------------------------------------------------------------- */

static void answers(void)
{
	const struct timespec past = { 1, 0 }, bad = { 0, 1000000000 };
	uint32_t *const w = words, *const nowhere = (uint32_t *)0x1000;

	call_on("lock", w, lock(w));
	call_on("again", w, lock(w));
	call_on("try again", w, futex(w, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	call_on("unlock", w, unlock(w));
	call_on("unlock again", w, unlock(w));
	call_on("try", w, futex(w, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	*w |= FUTEX_WAITERS;
	call_on("unlock with the mark", w, unlock(w));
	*w = FUTEX_OWNER_DIED;
	call_on("of a dead owner", w, futex(w, PI2 | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0));
	call_on("unlock", w, futex(w, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0));
	*w = 0x3ffffffe;
	call_on("of nobody", w, lock(w));
	call_on("try", w, futex(w, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	call_on("unlock", w, unlock(w));
	*w = 0;
	call("odd", lock((uint32_t *)((char *)w + 1)));
	call("nowhere", lock(nowhere));
	call("unlock nowhere", unlock(nowhere));
	call("real", futex(w, FUTEX_LOCK_PI | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0));
	call("try, real", futex(w, FUTEX_TRYLOCK_PI | FUTEX_CLOCK_REALTIME, 0, NULL, NULL, 0));
	call("bad time", futex(w, FUTEX_LOCK_PI, 0, &bad, NULL, 0));
	call("time nowhere", futex(w, PI2, 0, nowhere, NULL, 0));
	call_on("free, long ago", w, futex(w, FUTEX_LOCK_PI, 0, &past, NULL, 0));
	call("unlock", unlock(w));

	call("wait, one word", futex(w, FUTEX_WAIT_REQUEUE_PI, 0, NULL, w, 0));
	call("wait, other value", futex(w, FUTEX_WAIT_REQUEUE_PI, 1, NULL, w + 1, 0));
	call("wait, long ago", futex(w, FUTEX_WAIT_REQUEUE_PI, 0, &past, w + 1, 0));
	call("wait, odd",
	     futex(w, FUTEX_WAIT_REQUEUE_PI, 0, &past, (uint32_t *)((char *)w + 1), 0));
	call("requeue, one word", futex(w, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, w, 0));
	call("requeue, two at once", futex(w, FUTEX_CMP_REQUEUE_PI, 2, (void *)1, w + 1, 0));
	call("requeue, negative", futex(w, FUTEX_CMP_REQUEUE_PI, 1, (void *)-1L, w + 1, 0));
	call("requeue, other value", futex(w, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, w + 1, 3));
	call("requeue, none", futex(w, FUTEX_CMP_REQUEUE_PI, 1, (void *)1, w + 1, 0));
}

/* --- threads that wait ---------------------------------------------------------------------- */

struct other {
	pthread_t th;
	int prio;         /* SCHED_FIFO, or 0 */
	int nice;         /* or 0: as its maker */
	uint32_t *first;  /* locked at once */
	uint32_t *word;   /* then this, or waited for at it */
	uint32_t *target; /* to be moved there; NULL: locked */
	const struct timespec *until;
	bool keeps;           /* ends without unlocking */
	volatile uint32_t id; /* since it is in its place */
	long ret;
	int err;
	uint32_t found; /* in the word */
};

static uint32_t order[8], nr_order;

static void *other_main(void *arg)
{
	struct other *o = arg;

	if (o->prio)
		CHECK(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ o->prio }) == 0);
	if (o->nice)
		CHECK(setpriority(PRIO_PROCESS, (id_t)tid(), o->nice) == 0);
	if (o->first)
		CHECK(lock(o->first) == 0);
	o->id = tid();
	if (o->target)
		o->ret = futex(o->word, FUTEX_WAIT_REQUEUE_PI, 0, o->until, o->target, 0);
	else
		o->ret = futex(o->word, PI2, 0, o->until, NULL, 0);
	o->err = errno;
	o->found = *(o->target ? o->target : o->word);
	if (o->ret == 0) {
		order[nr_order++ % 8] = (uint32_t)o->prio;
		if (!o->keeps)
			CHECK(unlock(o->target ? o->target : o->word) == 0);
	}
	if (o->first && !o->keeps)
		CHECK(unlock(o->first) == 0);
	return NULL;
}

static void start(struct other *o)
{
	CHECK(pthread_create(&o->th, NULL, other_main, o) == 0);
	while (!o->id)
		usleep(1000);
}

static void end(const char *what, struct other *o)
{
	CHECK(pthread_join(o->th, NULL) == 0);
	printf("%s: %ld%s%s%s%s\n", what, o->ret, o->ret < 0 ? " " : "",
	       o->ret < 0 ? strerrorname_np(o->err) : "",
	       o->found & FUTEX_WAITERS ? ", waiters" : "",
	       o->found & FUTEX_OWNER_DIED ? ", owner died" : "");
}

static struct timespec after(long ms)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void in_order(void)
{
	const struct timespec past = { 1, 0 };
	struct other o[3] = { 0 };
	uint32_t *const w = words;

	*w = 0;
	nr_order = 0;
	CHECK(lock(w) == 0);
	await_priority("alone", tid(), 20);
	for (int i = 0; i < 3; i++) {
		o[i].prio = 5 * (i + 1);
		o[i].word = w;
		start(&o[i]);
		await_priority("with one more", tid(), -1 - o[i].prio);
	}
	printf("the word: %s\n", of(*w));
	call("wake", futex(w, FUTEX_WAKE, 1, NULL, NULL, 0));
	call("requeue", futex(w, FUTEX_REQUEUE, 1, (void *)1, w + 1, 0));
	call("unlock", unlock(w));
	for (int i = 0; i < 3; i++)
		end("it", &o[i]);
	printf("in the order %u %u %u, %s\n", order[0], order[1], order[2], of(*w));
	await_priority("alone", tid(), 20);

	/* Another's: a try, a time that has passed, a number that is wrong. */
	o[0] = (struct other){ .prio = 5, .first = w, .word = w + 1 };
	CHECK(lock(w + 1) == 0);
	start(&o[0]);
	await_priority("lent", tid(), -6);
	call_on("try", w, futex(w, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	call_on("long ago", w, futex(w, FUTEX_LOCK_PI, 0, &past, NULL, 0));
	call_on("unlock", w, unlock(w));
	call_on("a circle", w, lock(w));
	w[1] ^= 0x100000;
	call("wrong number", futex(w + 1, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	w[1] ^= 0x100000;
	call("unlock", unlock(w + 1));
	end("it", &o[0]);
	printf("%s, ", of(w[0]));
	printf("%s\n", of(w[1]));
}

/* By nice values too, and through a chain. */
static void chains(void)
{
	uint32_t *const a = words, *const b = words + 1;
	struct other mid = { .first = a, .word = b, .nice = -4 }, last = { .prio = 20, .word = a };
	struct timespec soon;

	*a = *b = 0;
	CHECK(setpriority(PRIO_PROCESS, 0, 10) == 0);
	CHECK(lock(b) == 0);
	await_priority("nice 10", tid(), 30);
	start(&mid);
	await_priority("lent", tid(), 16);
	soon = after(300);
	last.until = &soon;
	start(&last);
	await_priority("through a chain", tid(), -21);
	await_priority("in its middle", mid.id, -21);
	end("until its time", &last);
	await_priority("as before", tid(), 16);
	await_priority("in the middle", mid.id, 16);
	call("real time", sched_setscheduler((int)mid.id, SCHED_RR, &(struct sched_param){ 7 }));
	await_priority("lent too", tid(), -8);
	call("no more", sched_setscheduler((int)mid.id, SCHED_OTHER, &(struct sched_param){ 0 }));
	await_priority("not lent", tid(), 16);
	call("unlock", unlock(b));
	await_priority("its own", tid(), 30);
	end("the middle", &mid);
	CHECK(setpriority(PRIO_PROCESS, 0, 0) == 0);
}

static void owners_that_end(void)
{
	uint32_t *const a = words, *const b = words + 1;
	struct other o = { .first = a, .word = b, .keeps = true, .prio = 4 };

	*a = *b = 0;
	CHECK(lock(b) == 0);
	start(&o);
	await_priority("it waits", tid(), -5);
	call("unlock", unlock(b));
	end("it", &o);
	call_on("its first", a, lock(a));
	call_on("its second", b, lock(b));

	/* While somebody waits. */
	*a = *b = 0;
	o = (struct other){ .first = a, .word = b, .keeps = true };
	CHECK(lock(b) == 0);
	CHECK(setpriority(PRIO_PROCESS, 0, -2) == 0);
	start(&o);
	{
		struct other heir = { .prio = 9, .word = a, .keeps = true };
		struct other next = { .prio = 8, .word = a };

		start(&heir);
		await_priority("it waits", o.id, -10);
		start(&next);
		await_priority("and lends", tid(), -10);
		/* The one with the smaller priority is in line when it sleeps for good. */
		while (state_of(getpid(), (pid_t)next.id) != 'S')
			usleep(1000);
		call("unlock", unlock(b));
		end("it", &o);
		end("its heir", &heir);
		end("the next", &next);
		printf("%s\n", of(*a));
	}
	CHECK(setpriority(PRIO_PROCESS, 0, 0) == 0);
}

static void nothing(int signo)
{
	(void)signo;
}

static void moved(void)
{
	uint32_t *const a = words, *const b = words + 1;
	const struct sigaction sa = { .sa_handler = nothing };
	struct other o[3] = { 0 };

	*a = *b = 0;
	nr_order = 0;
	CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
	CHECK(lock(b) == 0);
	for (int i = 0; i < 3; i++) {
		o[i] = (struct other){ .prio = 5 * (i + 1), .word = a, .target = b };
		start(&o[i]);
		while (state_of(getpid(), (pid_t)o[i].id) != 'S')
			usleep(1000);
	}
	call("wake", futex(a, FUTEX_WAKE, 1, NULL, NULL, 0));
	call("elsewhere", futex(a, FUTEX_CMP_REQUEUE_PI, 1, (void *)9, words + 2, 0));
	call("requeue", futex(a, FUTEX_REQUEUE, 1, (void *)9, b, 0));
	call("move", futex(a, FUTEX_CMP_REQUEUE_PI, 1, (void *)9, b, 0));
	await_priority("they wait", tid(), -16);
	call("none is left", futex(a, FUTEX_CMP_REQUEUE_PI, 1, (void *)9, b, 0));
	pthread_kill(o[2].th, SIGUSR1);
	end("a signal", &o[2]);
	await_priority("they wait", tid(), -11);
	call("unlock", unlock(b));
	end("it", &o[0]);
	end("it", &o[1]);
	printf("in the order %u %u\n", order[0], order[1]);

	/* To a mutex that is free: the first gets it, before the call is over. */
	nr_order = 0;
	for (int i = 0; i < 2; i++) {
		o[i] = (struct other){ .prio = 6, .word = a, .target = b };
		start(&o[i]);
		while (state_of(getpid(), (pid_t)o[i].id) != 'S')
			usleep(1000);
	}
	call("to a free one", futex(a, FUTEX_CMP_REQUEUE_PI, 1, (void *)9, b, 0));
	end("it", &o[0]);
	end("it", &o[1]);
	printf("%s\n", of(*b));
}

/* --- the C library's ------------------------------------------------------------------------ */

static struct shared {
	pthread_mutex_t lock;
	unsigned long count;
	volatile int phase;
} *s;

static void mutex_init(int robust)
{
	pthread_mutexattr_t ma;

	memset(s, 0, sizeof(*s));
	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
	CHECK(pthread_mutexattr_setprotocol(&ma, PTHREAD_PRIO_INHERIT) == 0);
	if (robust)
		pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
	CHECK(pthread_mutex_init(&s->lock, &ma) == 0);
}

static void *count_up(void *arg)
{
	for (int i = 0; i < 1000; i++) {
		CHECK(pthread_mutex_lock(&s->lock) == 0);
		s->count++;
		if (i % 100 == 0)
			sched_yield();
		CHECK(pthread_mutex_unlock(&s->lock) == 0);
	}
	return arg;
}

static const char *name_of(int err)
{
	return err ? strerror(err) : "ok";
}

static void with_the_library(void)
{
	struct timespec past = { 1, 0 };
	pthread_t th[6];
	int status;
	pid_t pid;

	mutex_init(0);
	for (int i = 0; i < 6; i++)
		CHECK(pthread_create(&th[i], NULL, count_up, NULL) == 0);
	for (int i = 0; i < 6; i++)
		CHECK(pthread_join(th[i], NULL) == 0);
	printf("counted %lu\n", s->count);

	for (int how = 0; how < 2; how++) {
		mutex_init(1);
		fflush(stdout);
		pid = fork();
		if (!pid) {
			pthread_mutex_lock(&s->lock);
			s->phase = 1;
			for (;;)
				pause();
		}
		while (!s->phase)
			usleep(1000);
		printf("another's: %s, ", name_of(pthread_mutex_trylock(&s->lock)));
		printf("%s\n", name_of(pthread_mutex_timedlock(&s->lock, &past)));
		fflush(stdout);
		if (how == 0) {
			CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
			printf("killed: %s\n", name_of(pthread_mutex_lock(&s->lock)));
		} else {
			const pid_t killer = fork();

			if (!killer) {
				await_asleep(getppid());
				kill(pid, SIGKILL);
				_exit(0);
			}
			printf("waited for: %s\n", name_of(pthread_mutex_lock(&s->lock)));
			CHECK(waitpid(killer, &status, 0) == killer);
			CHECK(waitpid(pid, &status, 0) == pid);
		}
		printf("consistent: %s\n", name_of(pthread_mutex_consistent(&s->lock)));
		printf("unlock: %s\n", name_of(pthread_mutex_unlock(&s->lock)));
		printf("lock: %s\n", name_of(pthread_mutex_lock(&s->lock)));
		printf("unlock: %s\n", name_of(pthread_mutex_unlock(&s->lock)));
	}
}

int main(void)
{
	words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(words != MAP_FAILED);
	s = (struct shared *)(words + 64);
	setvbuf(stdout, NULL, _IOLBF, 0);
	answers();
	in_order();
	chains();
	owners_that_end();
	moved();
	with_the_library();
	return 0;
}
