/* SPDX-License-Identifier: MIT */
/*
 * The system call fuzzer's parts: main.c runs and watches children, child.c is what they do,
 * pools.c makes the descriptors and memory that arguments are drawn from, args.c draws them
 * (net_args.c those of sockets), calls.c knows which call wants what.
 *
 * Workers share one thread pointer, whatever the calls make of it, so what they run uses no
 * thread-local storage: raw calls, no errno.
 */
#pragma once

#include "../user.h"

#include <stdbool.h>
#include <sys/syscall.h>

#define NR_WORKERS    3U
#define SCRATCH_PAGES 4UL
#define FD_POOL       64
#define FIRST_SOCKET  48   /* descriptors from here on are made as sockets */
#define FUZZ_PORT     7900 /* and the next ones */
#define AREA_PAGES    64UL
#define MAX_CALLS     512

struct call {
	int nr;
	const char *name;
	const char *letters; /* one for each argument, made from syscall.tbl */
};
extern const struct call calls[];
extern const unsigned int nr_calls;

/*
 * How the arguments of one call are drawn: kinds of args.c in the place of the table's letters;
 * weight 8 is normal.
 */
struct hint {
	const char *name;
	const char *kinds;
	unsigned int weight;
};
const struct hint *hint_of(const char *name);

/* Progress of the children, for the driver; mapped shared by all. */
struct watch {
	uint64_t calls, good;
	uint32_t progress[8];   /* by child */
	uint32_t ok[MAX_CALLS]; /* by place in calls[] */
	struct {
		long nr, args[6], ret;
		int pid;
	} at[8][NR_WORKERS]; /* by child and worker: what it does just now */
};

/* Memory that calls may change as they like: the rest of a child should stay. */
struct pools {
	char *area[5]; /* anonymous across a 2 MiB border, shared, tmpfs, memfd, a program's text */
	char *scratch[NR_WORKERS];
	unsigned int filled;
};

struct worker {
	uint64_t rnd;
	struct pools *pools;
	struct watch *watch;
	unsigned int id, child;
	unsigned int left; /* calls */
	unsigned int used; /* bytes of the scratch memory */
	unsigned int made; /* bytes of the address, option or buffer that was made last */
	int level;         /* of the option that is drawn next */
	int driver, self;  /* pids */
	bool root;
	bool forked; /* in a process that a fuzzed fork has made */
	bool say;
};

#define NR_AREAS 5U

static inline long raw(long nr, const long a[6])
{
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define ONE_OF(w, ...)                                       \
	({                                                   \
		static const long pool_[] = { __VA_ARGS__ }; \
		pool_[draw(w, LEN(pool_))];                  \
	})

#define RAW(nr, ...) raw(nr, (const long[6]){ __VA_ARGS__ })

static inline uint64_t draw(struct worker *w, uint64_t below)
{
	return (next_random(&w->rnd) >> 11) % below;
}

static inline bool chance(struct worker *w, unsigned int percent)
{
	return draw(w, 100) < percent;
}

void pools_make(struct pools *pools, struct worker *w);
void pools_refresh(struct pools *pools);
bool pools_repair(struct pools *pools, unsigned long addr);

long args_pick(struct worker *w, char kind);
char *args_room(struct worker *w, size_t size);
long args_place(struct worker *w, char *made, size_t size);
long net_pick(struct worker *w, char kind);
#define NET_KINDS "/&:;<>?%#^_=!*"

const char *calls_refuse(const struct worker *w, long nr, const long a[6]);
void child_run(struct watch *watch, unsigned int slot, uint64_t seed, unsigned int count, bool root,
	       bool say, int driver) __attribute__((noreturn));
