/* SPDX-License-Identifier: MIT */
/*
 * Private and shared memory over forks.
 *
 *	tree		50 processes to a depth of 4; all write on both sides of each fork, unmap,
 *			move and give away pages; prints a hash of the memory of each
 *	threads N	8 threads write while one of them forks, N times
 *	shared		counters in anonymous shared memory, counted up by all of a family
 *	many N		N times fork and exit, one after the other
 */
#include "user.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* --- tree ---------------------------------------------------------------------------- */

#define NODES    50
#define CHILDREN 3
#define PAGES    600 /* more than a cache of 2 MiB has */

static uint64_t *memory, *moving;
static uint64_t expect[PAGES], expect_moving[64];
static volatile uint64_t *hashes; /* shared */

static volatile uint64_t *word(uint64_t *base, unsigned int page)
{
	return base + page * (PAGE / 8) + page % 512;
}

static void write_some(unsigned int node, unsigned int round)
{
	for (unsigned int p = 0; p < PAGES; p++) {
		if ((p * 7 + node * 3 + round) % 5)
			continue;
		expect[p] = (uint64_t)node << 32 | round << 16 | p;
		*word(memory, p) = expect[p];
	}
	for (unsigned int p = node % 4; p < 64; p += 4) {
		expect_moving[p] = (uint64_t)node << 20 | round << 8 | p;
		*word(moving, p) = expect_moving[p];
	}
}

static void check_all(unsigned int node, unsigned int when)
{
	for (unsigned int p = 0; p < PAGES; p++) {
		if (*word(memory, p) != expect[p])
			die("node %u at %u: page %u is %#lx and not %#lx", node, when, p,
			    (unsigned long)*word(memory, p), (unsigned long)expect[p]);
	}
	for (unsigned int p = 0; p < 64; p++) {
		if (*word(moving, p) != expect_moving[p])
			die("node %u at %u: moving page %u is %#lx and not %#lx", node, when, p,
			    (unsigned long)*word(moving, p), (unsigned long)expect_moving[p]);
	}
}

static void forget(unsigned int first, unsigned int nr)
{
	memset(&expect[first], 0, nr * sizeof(expect[0]));
}

/* Change the layout of some processes: each kind of change in some of them. */
static void change_layout(unsigned int node)
{
	char *at = (char *)memory;

	switch (node % 4) {
	case 0:
		CHECK(madvise(at + 100 * PAGE, 30 * PAGE, MADV_DONTNEED) == 0);
		forget(100, 30);
		break;
	case 1:
		CHECK(munmap(at + 200 * PAGE, 25 * PAGE) == 0);
		CHECK(mmap(at + 200 * PAGE, 25 * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + 200 * PAGE);
		forget(200, 25);
		break;
	case 2: {
		char *to = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(to != MAP_FAILED);
		CHECK(mremap(moving, 64 * PAGE, 64 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
		      to);
		moving = (uint64_t *)to;
		break;
	}
	default:
		CHECK(mprotect(at + 300 * PAGE, 50 * PAGE, PROT_READ) == 0);
		CHECK(mprotect(at + 300 * PAGE, 50 * PAGE, PROT_READ | PROT_WRITE) == 0);
		break;
	}
}

static uint64_t hash_memory(void)
{
	return hash_bytes(hash_bytes(HASH_INIT, memory, PAGES * PAGE), moving, 64 * PAGE);
}

static void run_node(unsigned int node)
{
	pid_t pids[CHILDREN] = { 0 };

	check_all(node, 1);
	change_layout(node);
	write_some(node, 1);
	for (unsigned int i = 0; i < CHILDREN; i++) {
		const unsigned int child = node * CHILDREN + 1 + i;

		if (child >= NODES)
			break;
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0) {
			run_node(child);
			_exit(0);
		}
		write_some(node, 2 + i);
	}
	check_all(node, 3);
	for (unsigned int i = 0; i < CHILDREN && pids[i]; i++) {
		int status;

		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK(status == 0);
		write_some(node, 6 + i);
	}
	check_all(node, 9);
	hashes[node] = hash_memory();
}

static void *map(size_t len, int flags)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void tree(void)
{
	memory = map(PAGES * PAGE, MAP_PRIVATE);
	moving = map(64 * PAGE, MAP_PRIVATE);
	hashes = map(NODES * sizeof(uint64_t), MAP_SHARED);
	write_some(NODES, 0);
	run_node(0);
	for (unsigned int i = 0; i < NODES; i++)
		printf("%2u %016lx\n", i, (unsigned long)hashes[i]);
}

/* --- threads ------------------------------------------------------------------------- */

#define WRITERS 8
#define EACH    96

static uint64_t *area;
static volatile int stop;

static volatile uint64_t *cell(unsigned int writer, unsigned int i)
{
	return word(area, writer * EACH + i);
}

static void *writer(void *arg)
{
	const unsigned int id = (unsigned int)(uintptr_t)arg;
	uint64_t last[EACH] = { 0 };

	for (uint64_t n = 1; !stop; n++) {
		const unsigned int i = (unsigned int)(n * 31 % EACH);

		if (*cell(id, i) != last[i])
			die("writer %u lost page %u: %lu, not %lu", id, i,
			    (unsigned long)*cell(id, i), (unsigned long)last[i]);
		last[i] = n;
		*cell(id, i) = n;
	}
	return NULL;
}

/*
 * In a child: nothing of what it has changes any more, and it is not older than what was there
 * before.
 */
static void settled(const uint64_t *before)
{
	uint64_t seen[WRITERS * EACH];

	for (unsigned int k = 0; k < WRITERS * EACH; k++) {
		seen[k] = *cell(k / EACH, k % EACH);
		if (seen[k] < before[k])
			die("page %u is older than the fork", k);
	}
	for (unsigned int k = 0; k < WRITERS * EACH; k += 2)
		*cell(k / EACH, k % EACH) = seen[k] = ~(uint64_t)k;
	for (unsigned int k = 0; k < WRITERS * EACH; k++) {
		if (*cell(k / EACH, k % EACH) != seen[k])
			die("page %u changed after the fork", k);
	}
}

static void threads(unsigned long forks)
{
	static uint64_t before[WRITERS * EACH];
	pthread_t t[WRITERS];

	area = map(WRITERS * EACH * PAGE, MAP_PRIVATE);
	for (uintptr_t i = 0; i < WRITERS; i++)
		CHECK(pthread_create(&t[i], NULL, writer, (void *)i) == 0);
	for (unsigned long n = 0; n < forks; n++) {
		int status;
		pid_t pid;

		for (unsigned int k = 0; k < WRITERS * EACH; k++)
			before[k] = *cell(k / EACH, k % EACH);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			settled(before);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(status == 0);
	}
	stop = 1;
	for (unsigned int i = 0; i < WRITERS; i++)
		CHECK(pthread_join(t[i], NULL) == 0);
	printf("%lu forks under 8 writers\n", forks);
}

/* --- shared, many -------------------------------------------------------------------- */

static void shared(void)
{
	enum {
		WORDS = 700,
		FAMILY = 16,
		ROUNDS = 3
	};
	uint64_t *count = map(WORDS * PAGE, MAP_SHARED);

	for (unsigned int n = 0; n < FAMILY; n++) {
		const pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid != 0)
			continue;
		for (unsigned int i = 0; i < WORDS * ROUNDS; i++)
			__atomic_add_fetch(word(count, i % WORDS), i + n, __ATOMIC_SEQ_CST);
		_exit(0);
	}
	for (unsigned int n = 0; n < FAMILY; n++) {
		int status;

		CHECK(wait(&status) > 0 && status == 0);
	}
	printf("%016lx\n", (unsigned long)hash_bytes(HASH_INIT, count, WORDS * PAGE));
}

static void many(unsigned long n)
{
	uint64_t *data = map(64 * PAGE, MAP_PRIVATE);

	for (unsigned long i = 0; i < n; i++) {
		int status;
		pid_t pid;

		*word(data, i % 64) = i;
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			*word(data, (i + 1) % 64) = i;
			_exit((int)(*word(data, i % 64) & 0x7f));
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(status == (int)(i & 0x7f) << 8);
	}
	printf("%lu forks\n", n);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "tree") == 0)
		tree();
	else if (strcmp(what, "threads") == 0)
		threads(arg_number(argc, argv, 2, 8));
	else if (strcmp(what, "shared") == 0)
		shared();
	else if (strcmp(what, "many") == 0)
		many(arg_number(argc, argv, 2, 100));
	else
		die("tree, threads N, shared, or many N");
	return 0;
}
