/* SPDX-License-Identifier: MIT */
/*
 * Threads on which the models of host tests serve requests.
 *
 * Each request gets a thread of its own, so that any may be delayed while others go on. A thread
 * that is done waits for the next request: under the sanitizers, making one costs more than most
 * tests do otherwise. None ends before the process does.
 */
#include "fake_threads.h"

#include <pthread.h>
#include <stdlib.h>

struct worker {
	struct worker *next; /* in the list of idle ones */
	pthread_cond_t wake;
	void (*fn)(void *arg); /* NULL: none to run */
	void *arg;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *idle; /* under lock, as is each worker's fn */

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	for (;;) {
		w->fn(w->arg);
		pthread_mutex_lock(&lock);
		w->fn = NULL;
		w->next = idle;
		idle = w;
		while (!w->fn)
			pthread_cond_wait(&w->wake, &lock);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void worker_make(void (*fn)(void *arg), void *arg)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_t t;

	if (!w)
		abort();
	pthread_cond_init(&w->wake, NULL);
	w->fn = fn;
	w->arg = arg;
	if (pthread_create(&t, NULL, worker_main, w))
		abort();
	pthread_detach(t);
}

void fake_thread_run(void (*fn)(void *arg), void *arg)
{
	struct worker *w;

	pthread_mutex_lock(&lock);
	w = idle;
	if (w) {
		idle = w->next;
		w->arg = arg;
		w->fn = fn;
		pthread_cond_signal(&w->wake);
	}
	pthread_mutex_unlock(&lock);
	if (!w)
		worker_make(fn, arg);
}
