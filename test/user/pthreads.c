/* SPDX-License-Identifier: MIT */
/*
 * The C library's locks, which are made of futexes: mutexes, condition variables, barriers,
 * rwlocks, semaphores, once; between threads, and in shared memory between processes; robust
 * mutexes whose owner dies. Prints the same on both.
 */
#include "state.h"
#include "user.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS 8

static unsigned long rounds = 2000;

static struct shared {
	pthread_mutex_t lock;
	pthread_cond_t cond, full, empty;
	pthread_barrier_t barrier;
	pthread_rwlock_t rw;
	sem_t sem, go;
	unsigned long count, readers, queue[16], head, tail, sum;
	volatile int phase;
} *s;

static void run(void *(*fn)(void *))
{
	pthread_t th[THREADS];

	for (long i = 0; i < THREADS; i++)
		CHECK(pthread_create(&th[i], NULL, fn, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(th[i], NULL) == 0);
}

static void *with_mutex(void *arg)
{
	for (unsigned long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&s->lock);
		s->count++;
		pthread_mutex_unlock(&s->lock);
	}
	return arg;
}

/* Half of them make numbers, the others sum them up. */
static void *through_queue(void *arg)
{
	const long me = (long)arg;

	for (unsigned long i = 0; i < rounds; i++) {
		pthread_mutex_lock(&s->lock);
		if (me % 2) {
			while (s->head - s->tail == 16)
				pthread_cond_wait(&s->full, &s->lock);
			s->queue[s->head++ % 16] = i;
			pthread_cond_signal(&s->empty);
		} else {
			while (s->head == s->tail)
				pthread_cond_wait(&s->empty, &s->lock);
			s->sum += s->queue[s->tail++ % 16];
			pthread_cond_signal(&s->full);
		}
		pthread_mutex_unlock(&s->lock);
	}
	return arg;
}

static void *with_barrier(void *arg)
{
	for (int i = 0; i < 50; i++) {
		if (pthread_barrier_wait(&s->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			s->phase++;
		pthread_barrier_wait(&s->barrier);
		CHECK(s->phase == i + 1);
	}
	return arg;
}

static void *with_rwlock(void *arg)
{
	const long me = (long)arg;

	for (unsigned long i = 0; i < rounds / 4; i++) {
		if (me < 2) {
			pthread_rwlock_wrlock(&s->rw);
			CHECK(__atomic_load_n(&s->readers, __ATOMIC_RELAXED) == 0);
			s->count++;
		} else {
			pthread_rwlock_rdlock(&s->rw);
			__atomic_add_fetch(&s->readers, 1, __ATOMIC_RELAXED);
			__atomic_sub_fetch(&s->readers, 1, __ATOMIC_RELAXED);
		}
		pthread_rwlock_unlock(&s->rw);
	}
	return arg;
}

static void *with_semaphore(void *arg)
{
	for (unsigned long i = 0; i < rounds / 4; i++) {
		while (sem_wait(&s->sem) < 0)
			;
		s->count++;
		sem_post(&s->sem);
	}
	return arg;
}

static void *wait_for_broadcast(void *arg)
{
	pthread_mutex_lock(&s->lock);
	while (!s->phase)
		pthread_cond_wait(&s->cond, &s->lock);
	s->count++;
	pthread_mutex_unlock(&s->lock);
	return arg;
}

static void *broadcast(void *arg)
{
	if ((long)arg)
		return wait_for_broadcast(arg);
	usleep(20000);
	pthread_mutex_lock(&s->lock);
	s->phase = 1;
	pthread_cond_broadcast(&s->cond);
	s->count++;
	pthread_mutex_unlock(&s->lock);
	return arg;
}

static void init(int pshared)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;
	pthread_barrierattr_t ba;
	pthread_rwlockattr_t ra;

	memset(s, 0, sizeof(*s));
	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setpshared(&ma, pshared);
	pthread_mutex_init(&s->lock, &ma);
	pthread_condattr_init(&ca);
	pthread_condattr_setpshared(&ca, pshared);
	pthread_cond_init(&s->cond, &ca);
	pthread_cond_init(&s->full, &ca);
	pthread_cond_init(&s->empty, &ca);
	pthread_barrierattr_init(&ba);
	pthread_barrierattr_setpshared(&ba, pshared);
	pthread_barrier_init(&s->barrier, &ba, THREADS);
	pthread_rwlockattr_init(&ra);
	pthread_rwlockattr_setpshared(&ra, pshared);
	pthread_rwlock_init(&s->rw, &ra);
	sem_init(&s->sem, pshared == PTHREAD_PROCESS_SHARED, 1);
}

static void (*runner)(void *(*fn)(void *)) = run;

static void all(int pshared)
{
	init(pshared);
	runner(with_mutex);
	printf("mutex: %lu\n", s->count);
	init(pshared);
	runner(through_queue);
	printf("queue: %lu\n", s->sum);
	init(pshared);
	runner(with_barrier);
	printf("barrier: %d\n", s->phase);
	init(pshared);
	runner(with_rwlock);
	printf("rwlock: %lu\n", s->count);
	init(pshared);
	runner(with_semaphore);
	printf("semaphore: %lu\n", s->count);
	init(pshared);
	runner(broadcast);
	printf("broadcast: %lu\n", s->count);
	fflush(stdout);
}

static void timeouts(void)
{
	struct timespec t;

	init(PTHREAD_PROCESS_PRIVATE);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 30000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	printf("cond: %s\n", strerror(pthread_cond_timedwait(&s->cond, &s->lock, &t)));
	printf("mutex: %s\n", strerror(pthread_mutex_timedlock(&s->lock, &t)));
	pthread_mutex_unlock(&s->lock);
	sem_wait(&s->sem);
	printf("sem: %d %s\n", sem_timedwait(&s->sem, &t), strerror(errno));
}

/* --- robust mutexes ------------------------------------------------------------------- */

static void robust_init(void)
{
	pthread_mutexattr_t ma;

	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->lock, &ma);
}

static void *die_with_lock(void *arg)
{
	pthread_mutex_lock(&s->lock);
	return arg;
}

static const char *name_of(int err)
{
	return err ? strerror(err) : "ok";
}

static void robust_threads(void)
{
	pthread_t th;
	int err;

	robust_init();
	pthread_create(&th, NULL, die_with_lock, NULL);
	pthread_join(th, NULL);
	err = pthread_mutex_lock(&s->lock);
	printf("owner's thread ended: %s\n", name_of(err));
	printf("consistent: %s\n", name_of(pthread_mutex_consistent(&s->lock)));
	printf("unlock: %s\n", name_of(pthread_mutex_unlock(&s->lock)));
	printf("lock: %s\n", name_of(pthread_mutex_lock(&s->lock)));
	pthread_mutex_unlock(&s->lock);
}

/* --- the same between processes ------------------------------------------------------- */

static void run_processes(void *(*fn)(void *))
{
	pid_t pids[THREADS];
	int status;

	fflush(stdout);
	for (long i = 0; i < THREADS; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (!pids[i]) {
			fn((void *)i);
			_exit(0);
		}
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
}

static void robust_processes(void)
{
	int status;
	pid_t pid;

	for (int how = 0; how < 3; how++) {
		robust_init();
		s->phase = 0;
		fflush(stdout);
		pid = fork();
		if (!pid) {
			pthread_mutex_lock(&s->lock);
			s->phase = 1;
			if (how == 0)
				_exit(0);
			if (how == 1)
				abort();
			for (;;)
				pause();
		}
		while (!s->phase)
			usleep(1000);
		if (how == 2) {
			/* It is killed while we wait for the lock. */
			const pid_t killer = fork();

			if (!killer) {
				await_asleep(getppid());
				kill(pid, SIGKILL);
				_exit(0);
			}
			printf("waiting: %s\n", name_of(pthread_mutex_lock(&s->lock)));
			CHECK(waitpid(killer, &status, 0) == killer);
			CHECK(waitpid(pid, &status, 0) == pid);
		} else {
			CHECK(waitpid(pid, &status, 0) == pid);
			printf("after: %s\n", name_of(pthread_mutex_lock(&s->lock)));
		}
		pthread_mutex_unlock(&s->lock);
		printf("not made consistent: %s\n", name_of(pthread_mutex_lock(&s->lock)));
	}
}

int main(int argc, char **argv)
{
	static struct shared private;

	rounds = arg_number(argc, argv, 2, rounds);
	if (argc > 1 && strcmp(argv[1], "processes") == 0) {
		s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			 0);
		CHECK(s != MAP_FAILED);
		runner = run_processes;
		all(PTHREAD_PROCESS_SHARED);
		robust_processes();
		return 0;
	}
	s = &private;
	all(PTHREAD_PROCESS_PRIVATE);
	all(PTHREAD_PROCESS_SHARED);
	timeouts();
	robust_threads();
	return 0;
}
