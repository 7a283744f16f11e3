/* SPDX-License-Identifier: MIT */
/*
 * A fuzzer of system calls: sysfuzz SEED FIRST COUNT [AT-ONCE [CALLS [say]]]
 *
 * Runs the children FIRST to FIRST + COUNT - 1 of a seed, AT-ONCE of them side by side, each for
 * CALLS calls by each of its threads. A child follows from seed and number alone (as far as
 * threads allow), so a finding is repeated by the line that is printed. After each batch
 * everything that descends from it is killed, and must be gone; then no process, descriptor or
 * file may be left. The test then reads the
 * kernel's counters for objects that are left.
 *
 * Two of three children run without rights. The calls kill() everybody as root: it runs on Tessera
 * only.
 */
#include "sysfuzz.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#define PATIENCE_S 3  /* for a child to make its next call, and ... */
#define CHILD_S    20 /* for all of them; it is killed then */
#define GONE_S     60 /* for a killed child to be gone */
#define TOP        "/tmp/sysfuzz"

static struct watch *watch;
static uint64_t seed;

static double now(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static unsigned int entries(const char *dir)
{
	unsigned int n = 0;
	DIR *d = opendir(dir);

	CHECK(d);
	for (struct dirent *e; (e = readdir(d));)
		n += dir[1] != 'p' || dir[5] == '/' || (e->d_name[0] >= '0' && e->d_name[0] <= '9');
	closedir(d);
	return n;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	if (at->level)
		(void)remove(path); /* what the root shows there cannot be */
	return 0;
}

/* Objects of System V IPC that are left are children's: we make none. */
static void clean_ipc(void)
{
	union {
		struct shmid_ds shm;
		struct semid_ds sem;
		struct msqid_ds msg;
		long info[32];
	} buf;
	const int nr_shm = shmctl(0, SHM_INFO, (void *)&buf) + 1;
	const int nr_sem = semctl(0, 0, SEM_INFO, &buf) + 1;
	const int nr_msg = msgctl(0, MSG_INFO, (void *)&buf) + 1;

	for (int i = 0; i < nr_shm; i++)
		(void)shmctl(shmctl(i, SHM_STAT, &buf.shm), IPC_RMID, NULL);
	for (int i = 0; i < nr_sem; i++)
		(void)semctl(semctl(i, 0, SEM_STAT, &buf), 0, IPC_RMID);
	for (int i = 0; i < nr_msg; i++)
		(void)msgctl(msgctl(i, MSG_STAT, &buf.msg), IPC_RMID, NULL);
}

/* A child may have gone anywhere and have made files there. */
static void clean(void)
{
	static const char *const tops[] = { "/tmp", "/dev/shm", "/run", "/var/tmp" };

	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		(void)nftw(tops[i], remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	clean_ipc();
}

static pid_t start(unsigned int slot, unsigned int number, unsigned int nr, bool say)
{
	const int driver = getpid();
	char dir[64];
	pid_t pid;

	snprintf(dir, sizeof(dir), TOP "/%u", slot);
	CHECK(mkdir(dir, 0777) == 0 && chmod(dir, 0777) == 0);
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	CHECK(chdir(dir) == 0);
	/* Its own numbers, far from its neighbours'. */
	child_run(watch, slot, hash_word(hash_word(HASH_INIT, seed), number), nr, number % 3 == 2,
		  say, driver);
}

/* Wait for the end of one child, at most until @deadline. */
static pid_t reap(double deadline)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (;;) {
		const double left = deadline - now();
		const struct timespec t = { (time_t)left,
					    (long)((left - (double)(time_t)left) * 1e9) };
		int st = 0;
		const pid_t pid = waitpid(-1, &st, WNOHANG | __WALL);

		/* PTRACE_TRACEME has made us the child's tracer. */
		if (pid > 0 && WIFSTOPPED(st)) {
			const int signo = WSTOPSIG(st) & 0x7f;

			(void)ptrace(PTRACE_CONT, pid, 0, signo == SIGTRAP ? 0 : signo);
			continue;
		}
		if (pid)
			return pid > 0 ? pid : -1;
		if (left <= 0)
			return 0;
		sigtimedwait(&set, NULL, &t);
	}
}

static void show(void)
{
	for (unsigned int c = 0; c < 8; c++) {
		for (unsigned int i = 0; i < NR_WORKERS; i++) {
			if (!watch->at[c][i].pid)
				continue;
			fprintf(stderr, "pid %d worker %u: call %ld", watch->at[c][i].pid, i,
				watch->at[c][i].nr);
			for (unsigned int k = 0; k < 6; k++)
				fprintf(stderr, " %lx", watch->at[c][i].args[k]);
			fprintf(stderr, " last result %ld\n", watch->at[c][i].ret);
		}
	}
}

/* Read every file of /proc. */
static int show_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	char text[1500];
	ssize_t n;
	int fd;

	(void)st;
	if (type != FTW_F || !isdigit(path[6]) || strcmp(path + at->base, "status") != 0)
		return 0;
	fd = open(path, O_RDONLY);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n > 0)
		fprintf(stderr, "%s:\n%.*s", path, (int)n, text);
	close(fd);
	return 0;
}

static void show_proc(void)
{
	DIR *d = opendir("/proc");

	CHECK(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%.20s/task", e->d_name);
		if (isdigit(e->d_name[0]))
			nftw(path, show_file, 8, FTW_PHYS);
	}
	closedir(d);
}

static void hang(void)
{
	fprintf(stderr, "killed and not gone:\n");
	show();
	show_proc();
	die("hang");
}

static void batch(unsigned int first, unsigned int n, unsigned int nr, bool say)
{
	const double start_time = now();
	pid_t pids[8];
	unsigned int left = n;
	double end;

	clean();
	CHECK(mkdir(TOP, 0777) == 0 && chmod(TOP, 0777) == 0);
	memset(watch->at, 0, sizeof(watch->at));
	memset(watch->progress, 0, sizeof(watch->progress));
	for (unsigned int i = 0; i < n; i++)
		pids[i] = start(i, first + i, nr, say);
	while (left && now() < start_time + CHILD_S) {
		uint32_t before[8];
		pid_t pid;

		memcpy(before, watch->progress, sizeof(before));
		pid = reap(now() + (before[0] ? PATIENCE_S : CHILD_S));
		for (unsigned int i = 0; i < n; i++)
			left -= pids[i] == pid;
		if (!pid && !memcmp(before, watch->progress, sizeof(before)))
			break;
	}
	if (left && say)
		show();
	/* Orphans come here: when there are no children left, nothing is. */
	kill(-1, SIGKILL);
	end = now() + GONE_S;
	for (pid_t pid = 1; pid >= 0;) {
		pid = reap(end);
		if (!pid)
			hang();
		kill(-1, SIGKILL);
	}
	clean();
}

int main(int argc, char **argv)
{
	const unsigned int first = (unsigned int)arg_number(argc, argv, 2, 0);
	const unsigned int count = (unsigned int)arg_number(argc, argv, 3, 4);
	const unsigned int at_once = (unsigned int)arg_number(argc, argv, 4, 2);
	const unsigned int nr = (unsigned int)arg_number(argc, argv, 5, 300);
	unsigned int fds, pids, good = 0;
	struct utsname system;
	char *guard;
	sigset_t set;

	CHECK(uname(&system) == 0);
	if (!strstr(system.version, "Tessera")) /* never anywhere else */
		die("this is %s %s: sysfuzz kills everything", system.sysname, system.version);
	if (argc < 2 || argc > 7 || at_once < 1 || at_once > 8)
		die("sysfuzz SEED FIRST COUNT [AT-ONCE [CALLS [say]]]");
	seed = arg_number(argc, argv, 1, 0);
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	/* Apart from everything: what calls write beyond their areas must not come here. */
	guard = mmap(NULL, 16 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(guard != MAP_FAILED);
	watch = mmap(guard + 8 * MB, sizeof(*watch), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(watch != MAP_FAILED);
	fds = entries("/proc/self/fd");
	pids = entries("/proc");
	for (unsigned int i = 0; i < count; i += at_once) {
		fprintf(stderr, "sysfuzz %lu %u %u %u %u\n", seed, first + i, at_once, at_once, nr);
		batch(first + i, at_once < count - i ? at_once : count - i, nr, argc == 7);
		if (entries("/proc/self/fd") != fds || entries("/proc") != pids)
			die("left: %u of %u descriptors, %u of %u processes",
			    entries("/proc/self/fd"), fds, entries("/proc"), pids);
	}
	for (unsigned int i = 0; i < nr_calls; i++)
		good += watch->ok[i];
	fprintf(stderr, "%lu calls, %lu%% succeeded, %u of %u calls at least once\n", watch->calls,
		watch->calls ? watch->good * 100 / watch->calls : 0, good, nr_calls);
	for (unsigned int i = 0; i < nr_calls && count > 50; i++)
		if (!watch->ok[i])
			fprintf(stderr, "never: %s\n", calls[i].name);
	return 0;
}
