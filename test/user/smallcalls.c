/* SPDX-License-Identifier: MIT */
/*
 * Calls that programs try in passing: mlock and its kin, mincore, membarrier, personality,
 * openat2, calls on sockets that are none, files without a file system, odd clocks, zombies and
 * process 1, prctl, rusage. Prints the same as on Linux.
 */
#include "state.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/membarrier.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

static void call(const char *what, long ret)
{
	const int err = errno;

	printf("%s: %s\n", what, ret < 0 ? strerrorname_np(err) : "done");
}

static void locking(void)
{
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char vec[4];

	CHECK(p != MAP_FAILED);
	memset(p, 1, 2 * PAGE);
	CHECK(munmap(p + 3 * PAGE, PAGE) == 0);
	call("mlock", mlock(p, 3 * PAGE));
	call("mlock within pages", mlock(p + 10, 100));
	call("mlock nothing", mlock(p, 0));
	call("mlock a hole", mlock(p, 4 * PAGE));
	call("mlock all there is", mlock(p, -PAGE));
	call("mlock2", (long)syscall(SYS_mlock2, p, PAGE, 1));
	call("mlock2, flag", (long)syscall(SYS_mlock2, p, PAGE, 2));
	call("munlock", munlock(p, 3 * PAGE));
	call("munlock a hole", munlock(p, 4 * PAGE));
	call("mlockall 0", mlockall(0));
	call("mlockall ONFAULT", mlockall(4));
	call("mlockall 8", mlockall(9));
	call("munlockall", munlockall());
	memset(p, 1, 2 * PAGE);
	call("mincore", mincore(p, 3 * PAGE, vec));
	printf("%d %d\n", vec[0] & 1, vec[1] & 1);
	call("mincore, nothing", mincore(p, 0, vec));
	call("mincore, odd", mincore(p + 1, PAGE, vec));
	call("mincore, a hole", mincore(p, 4 * PAGE, vec));
	call("mincore, no vec", mincore(p, PAGE, NULL));
	call("mincore, too long", mincore(p, 1UL << 60, vec));
}

/* Without the right to lock what it likes. */
static void limited(void)
{
	char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit lim = { 4 * PAGE, 4 * PAGE };
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
		if (geteuid() == 0)
			CHECK(setuid(1234) == 0);
		call("as a user", mlock(p, 4 * PAGE));
		munlock(p, 4 * PAGE);
		call("more", mlock(p, 5 * PAGE));
		lim.rlim_cur = lim.rlim_max = 0;
		CHECK(setrlimit(RLIMIT_MEMLOCK, &lim) == 0);
		call("with no limit left", mlock(p, PAGE));
		call("mlockall", mlockall(MCL_CURRENT));
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void barriers(void)
{
	const long all = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	printf("membarrier: %#lx\n", all & 0x1f);
	call("not registered", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
	call("register", syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
	call("private", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
	call("global", syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
	call("global expedited", syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0));
	call("flags", syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 1, 0));
	call("two at once", syscall(SYS_membarrier, 3, 0, 0));
}

static void persona(char **argv)
{
	int status;
	pid_t pid;

	printf("personality %#x\n", personality(0xffffffff));
	printf("was %#x\n", personality(ADDR_NO_RANDOMIZE));
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		execl("/proc/self/exe", argv[0], "persona", NULL);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	printf("was %#x\n", personality(0));
}

static long open2(const char *path, uint64_t flags, uint64_t mode, uint64_t more, size_t size)
{
	struct {
		struct open_how how;
		uint64_t more;
	} h = { { .flags = flags, .mode = mode }, more };
	const long fd = syscall(SYS_openat2, AT_FDCWD, path, &h, size);

	if (fd >= 0)
		close((int)fd);
	return fd;
}

static void opening(void)
{
	const size_t size = sizeof(struct open_how);

	call("openat2", open2("/dev/null", O_RDWR | O_CLOEXEC, 0, 0, size));
	call("mode without O_CREAT", open2("/dev/null", O_RDWR, 0600, 0, size));
	call("unknown flag", open2("/dev/null", 1ULL << 40, 0, 0, size));
	call("small", open2("/dev/null", O_RDWR, 0, 0, size - 1));
	call("large, zero", open2("/dev/null", O_RDWR, 0, 0, size + 8));
	call("large", open2("/dev/null", O_RDWR, 0, 1, size + 8));
	call("nothing there", open2("/dev/nothing", O_RDONLY, 0, 0, size));
	call("creating", open2("/dev/shm/openat2", O_WRONLY | O_CREAT | O_EXCL, 0600, 0, size));
	call("odd mode", open2("/dev/shm/openat2", O_WRONLY | O_CREAT, 010000, 0, size));
	unlink("/dev/shm/openat2");
}

static void sockets(void)
{
	char c = 0;

	call("connect", connect(0, NULL, 0));
	call("send", send(77, &c, 1, 0));
	call("recv", recv(-1, &c, 1, 0));
	call("send to none", send(1, &c, 1, 0));
	call("getsockopt", getsockopt(1, SOL_SOCKET, SO_ERROR, &c, NULL));
	call("shutdown", shutdown(1, 0));
	call("listen", listen(1, 1));
	call("accept", accept(99, NULL, NULL));
}

/* Kinds of files that have no file system to speak of. */
static void kinds(void)
{
	int pipes[2], pair[2];
	struct statfs st;

	CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	const struct {
		const char *what;
		int fd;
	} all[] = {
		{ "pipe", pipes[0] },
		{ "pair", pair[0] },
		{ "eventfd", eventfd(0, 0) },
		{ "epoll", epoll_create1(0) },
		{ "pidfd", (int)syscall(SYS_pidfd_open, getpid(), 0) },
		{ "memfd", memfd_create("m", 0) },
		{ "null", open("/dev/null", O_RDWR) },
		{ "zero", open("/dev/zero", O_RDWR) },
		{ "proc", open("/proc/self/stat", O_RDONLY) },
		{ "proc's root", open("/proc", O_RDONLY) },
		{ "shm", open("/dev/shm", O_RDONLY) },
		{ "root", open("/", O_RDONLY) },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		printf("%s ", all[i].what);
		call("fsync", fsync(all[i].fd));
		call("fdatasync", fdatasync(all[i].fd));
		printf("fadvise %d %d\n", posix_fadvise(all[i].fd, 0, 0, POSIX_FADV_NORMAL),
		       posix_fadvise(all[i].fd, 0, 0, 99));
		call("fstatfs", fstatfs(all[i].fd, &st));
		if (i < 6)
			printf("%#lx %ld %ld\n", (long)st.f_type, (long)st.f_bsize,
			       (long)st.f_namelen);
		close(all[i].fd);
	}
}

static void clocks(void)
{
	static const int all[] = { 4, 5, 6, 8, 9, 10, 12, 3 };
	const struct timespec ts = { 0, 1 };
	struct sigevent ev = { .sigev_notify = SIGEV_NONE };
	struct itimerspec v = { { 0, 1 }, { 0, 1 } };
	struct timespec now;
	timer_t id;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		printf("clock %d\n", all[i]);
		call("sleep", syscall(SYS_clock_nanosleep, all[i], 0, &ts, NULL));
		call("timer", all[i] == 3 ? 0 : syscall(SYS_timer_create, all[i], &ev, &id));
		call("timerfd", timerfd_create(all[i], 0));
	}
	/* A nanosecond apart since 1970: more than an int can say. */
	ev = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
	sigset_t set;
	siginfo_t si;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	CHECK(timer_create(CLOCK_REALTIME, &ev, &id) == 0);
	CHECK(timer_settime(id, TIMER_ABSTIME, &v, NULL) == 0);
	CHECK(sigwaitinfo(&set, &si) == SIGUSR1);
	printf("overrun %d, told %d\n", timer_getoverrun(id), si.si_overrun);
	/* Each hour since then, and a moment. */
	CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
	v = (struct itimerspec){ { 3600, 0 }, { now.tv_sec - 36000 - 1800, 0 } };
	CHECK(timer_settime(id, TIMER_ABSTIME, &v, NULL) == 0);
	CHECK(sigwaitinfo(&set, &si) == SIGUSR1);
	printf("overrun %d\n", timer_getoverrun(id));
	CHECK(timer_delete(id) == 0);
}

/* A zombie, and process 1. */
static void not_running(void)
{
	struct sched_param par = { 0 };
	void *head;
	size_t len;
	siginfo_t si;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		_exit(0);
	CHECK(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT) == 0);
	call("zombie, getscheduler", sched_getscheduler(pid));
	call("getparam", sched_getparam(pid, &par));
	call("setscheduler", sched_setscheduler(pid, SCHED_BATCH, &par));
	call("setscheduler, bad", sched_setscheduler(pid, 99, &par));
	CHECK(waitpid(pid, NULL, 0) == pid);
	call("gone", sched_getscheduler(pid));
	call("one, getscheduler", sched_getscheduler(1));
	call("getparam", sched_getparam(1, &par));
	call("setscheduler, bad", sched_setscheduler(1, 99, &par));
	errno = 0;
	call("getpriority", (getpriority(PRIO_PROCESS, 1), -(errno != 0)));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		if (geteuid() == 0)
			CHECK(setuid(1234) == 0);
		call("as a user, setpriority", setpriority(PRIO_PROCESS, 1, -2));
		call("setscheduler", sched_setscheduler(1, SCHED_OTHER, &par));
		call("robust list of 1", syscall(SYS_get_robust_list, 1, &head, &len));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	call("robust list of none", syscall(SYS_get_robust_list, 4194303, &head, &len));
	call("groups at no place", setgroups(65536, (gid_t *)-1));
	call("more groups than there are", setgroups(65537, (gid_t *)-1));
}

/* --- nice values of threads ------------------------------------------------------------------ */

static int base_nice;

static int nice_of(id_t id)
{
	return getpriority(PRIO_PROCESS, id) - base_nice;
}

/* As the file of the thread says. */
static int nice_in_proc(pid_t tid)
{
	char path[64], text[512], *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	close(fd);
	text[n] = '\0';
	at = strrchr(text, ')');
	CHECK(at);
	for (int field = 2; field < 19; field++)
		at = strchr(at + 1, ' ');
	return atoi(at) - base_nice;
}

static void *inner_thread(void *arg)
{
	(void)arg;
	printf("made by it: %d\n", nice_of(0));
	return NULL;
}

static void *nicer_thread(void *arg)
{
	const pid_t tid = (pid_t)syscall(SYS_gettid);
	pthread_t inner;
	int status;
	pid_t pid;

	(void)arg;
	printf("a new thread: %d\n", nice_of(0));
	CHECK(setpriority(PRIO_PROCESS, 0, base_nice + 4) == 0);
	printf("then %d, the first %d\n", nice_of(0), nice_of((id_t)getpid()));
	printf("by number %d, in proc %d, of the first %d\n", nice_of((id_t)tid), nice_in_proc(tid),
	       nice_in_proc(getpid()));
	CHECK(pthread_create(&inner, NULL, inner_thread, NULL) == 0);
	CHECK(pthread_join(inner, NULL) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		printf("its child: %d %d\n", nice_of(0), nice_in_proc(getpid()));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(setpriority(PRIO_PROCESS, (id_t)getpid(), base_nice + 2) == 0);
	printf("the first one changed: %d %d\n", nice_of((id_t)getpid()), nice_of(0));
	return NULL;
}

static void nice_values(void)
{
	pthread_t thread;

	base_nice = getpriority(PRIO_PROCESS, 0);
	CHECK(pthread_create(&thread, NULL, nicer_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	printf("at last: %d\n", nice_of(0));
}

/* Settings that prctl keeps. */
static void kept(void)
{
	unsigned int tsc = 0;
	int status;
	pid_t pid;

	printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
	CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
	printf("then %d\n", prctl(PR_GET_DUMPABLE));
	call("2", prctl(PR_SET_DUMPABLE, 2));
	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(prctl(PR_GET_DUMPABLE) ? 1 : 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
	printf("huge pages off %d\n", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
	printf("then %d\n", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	call("more arguments", prctl(PR_SET_THP_DISABLE, 1, 1, 0, 0));
	CHECK(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) == 0);
	printf("slack %d\n", prctl(PR_GET_TIMERSLACK));
	CHECK(prctl(PR_SET_TIMERSLACK, 70000) == 0);
	printf("then %d\n", prctl(PR_GET_TIMERSLACK));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		CHECK(prctl(PR_SET_TIMERSLACK, 5) == 0 && prctl(PR_SET_TIMERSLACK, 0) == 0);
		printf("a child's default %d\n", prctl(PR_GET_TIMERSLACK));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(prctl(PR_SET_TIMERSLACK, 0) == 0);
	printf("back to %d\n", prctl(PR_GET_TIMERSLACK));
	call("tsc", prctl(PR_GET_TSC, &tsc));
	printf("%u\n", tsc);
	call("tsc on", prctl(PR_SET_TSC, 1));
	call("tsc, bad", prctl(PR_SET_TSC, 3));
	printf("seccomp %d, timing %d\n", prctl(PR_GET_SECCOMP), prctl(PR_GET_TIMING));
	call("timing", prctl(PR_SET_TIMING, 1));
}

/* 0 for a process that is not dumpable, or 2 as the host is set. */
static int tell_dumpable(const char *what)
{
	return printf("%s: dumpable %d\n", what, prctl(PR_GET_DUMPABLE) == 1);
}

/* After a call that changes ids, and as before for the next one. */
static void changed(const char *what, long ret)
{
	CHECK(ret >= 0);
	tell_dumpable(what);
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
}

static void proc_file(pid_t pid, const char *name)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	CHECK(stat(path, &st) == 0);
	fd = open(path, O_RDONLY);
	printf("%s of user %d: %s\n", name, (int)st.st_uid,
	       fd < 0 ? strerrorname_np(errno) : "opened");
	if (fd >= 0)
		close(fd);
}

/* A process with the same ids all over, which must not see what the other one had before. */
static void look_at(pid_t pid, const char *what)
{
	static const char *const names[] = { "", "status", "environ", "maps", "fd" };
	size_t len;
	void *head;

	puts(what);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		proc_file(pid, names[i]);
	call("robust list", syscall(SYS_get_robust_list, pid, &head, &len));
	fflush(stdout);
}

static void drop_ids(void)
{
	int signo, status, fd[2];
	char path[64], text[16];
	pid_t pid;

	changed("the real id alone", setresuid(1234, (uid_t)-1, (uid_t)-1));
	changed("groups", setgroups(0, NULL));
	changed("fsuid", syscall(SYS_setfsuid, 5));
	changed("the same again", syscall(SYS_setfsuid, 5));
	changed("fsuid back", syscall(SYS_setfsuid, 0));
	changed("egid", setresgid((gid_t)-1, 77, (gid_t)-1));
	changed("the real group alone", setresgid(77, (gid_t)-1, 77));
	CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0);
	CHECK(setresuid(1234, 1234, 1234) == 0);
	CHECK(prctl(PR_GET_PDEATHSIG, &signo) == 0);
	printf("a parent's death: %d\n", signo);
	tell_dumpable("a user");
	look_at(getpid(), "itself");
	CHECK(pipe(fd) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd[0]);
	CHECK(readlink(path, text, sizeof(text)) > 5);
	printf("its descriptor: %.5s\n", text);
	call("fchdir to its descriptors", fchdir(open("/proc/self/fd", O_RDONLY | O_DIRECTORY)));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		look_at(getppid(), "another one");
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		look_at(getppid(), "another one, when it is dumpable again");
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void dropped_ids(void)
{
	int status;
	pid_t pid;

	if (geteuid())
		return;
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		drop_ids();
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void no_kill(void)
{
	struct {
		uint32_t version;
		int pid;
	} h = { 0x20080522, 0 };
	struct {
		uint32_t effective, permitted, inheritable;
	} d[2];

	CHECK(syscall(SYS_capget, &h, d) == 0);
	d[0].effective &= ~(1u << 5);
	d[0].permitted &= ~(1u << 5);
	d[0].inheritable &= ~(1u << 5);
	CHECK(syscall(SYS_capset, &h, d) == 0);
	tell_dumpable("a capability less");
}

/* A program begins dumpable, unless its ids differ or it may more than the one before. */
static void exec_dumpable(void)
{
	if (geteuid())
		return;
	for (int i = 0; i < 3; i++) {
		const pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (!pid) {
			if (i == 0)
				CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
			if (i == 1)
				CHECK(setresuid(1234, (uid_t)-1, (uid_t)-1) == 0);
			if (i == 2)
				no_kill();
			fflush(stdout);
			execl("/proc/self/exe", "smallcalls", "dumpable", NULL);
			_exit(1);
		}
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

static void personas(void)
{
	static const unsigned int all[] = { 0x8000000, 0x4000000, 0x800000,  0x20000,
					    0x200000,  0x1000000, 0x2000000, 1,
					    8,         0x400000,  0 };
	struct timespec ts = { 0, 1000000 };
	struct pollfd none = { .fd = -1 };
	struct utsname name;
	char *p;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		printf("persona %#x\n", (unsigned int)personality(all[i]));
	personality(UNAME26);
	CHECK(uname(&name) == 0);
	printf("%.4s\n", name.release);
	personality(STICKY_TIMEOUTS);
	CHECK(syscall(SYS_ppoll, &none, 1, &ts, NULL, 8) == 0);
	printf("still %ld\n", ts.tv_nsec);
	personality(0);
	CHECK(syscall(SYS_ppoll, &none, 1, &ts, NULL, 8) == 0);
	printf("left %ld\n", ts.tv_nsec);
	personality(READ_IMPLIES_EXEC);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	personality(0);
	CHECK(p != MAP_FAILED);
	*p = '\xc3'; /* ret */
	((void (*)(void))p)();
	puts("what is read is executed");
}

/* Uses 32 MiB: does that leave a mark? Not all of it, for a page may go while others come. */
static void use_memory(void)
{
	struct rusage before, after;
	const size_t len = 32 * MB;
	char *p;

	CHECK(getrusage(RUSAGE_SELF, &before) == 0);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	madvise(p, len, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < len; i += PAGE)
		p[i] = 1;
	CHECK(munmap(p, len) == 0 && getrusage(RUSAGE_SELF, &after) == 0);
	printf("maxrss grew %d, faults %d\n", after.ru_maxrss >= before.ru_maxrss + 4 * 1024,
	       after.ru_minflt >= before.ru_minflt + 1000);
	fflush(stdout);
}

/*
 * A child's memory leaves its mark at its parent. A child is asked, because the peak of a program
 * begins with that of the process which executed it.
 */
static void resources(void)
{
	struct rusage children, once;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		use_memory();
		_exit(0);
	}
	CHECK(wait4(pid, &status, 0, &once) == pid && status == 0);
	CHECK(getrusage(RUSAGE_CHILDREN, &children) == 0);
	printf("a child's %d %d\n", once.ru_maxrss >= 4 * 1024,
	       children.ru_maxrss >= once.ru_maxrss);
}

/* The number behind @field in /proc/self/status. */
static long in_status(const char *field)
{
	char line[256];
	long n = -1;
	FILE *f = fopen("/proc/self/status", "r");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, field, strlen(field)))
			n = strtol(line + strlen(field), NULL, 10);
	}
	CHECK(fclose(f) == 0);
	return n;
}

/* Two processes share a CPU, so each yield is a switch; a sleep is one of the other kind. */
static void switches(void)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	struct rusage before, yielded, slept;
	cpu_set_t all, first;
	pid_t pid;

	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	CPU_ZERO(&first);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&first); i++) {
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &first);
	}
	CHECK(sched_setaffinity(0, sizeof(first), &first) == 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		for (;;)
			sched_yield();
	}
	CHECK(getrusage(RUSAGE_SELF, &before) == 0);
	do { /* as often as it takes: a yield may find nothing else to run */
		sched_yield();
		CHECK(getrusage(RUSAGE_SELF, &yielded) == 0);
	} while (yielded.ru_nivcsw < before.ru_nivcsw + 5);
	for (int i = 0; i < 20; i++)
		nanosleep(&ms, NULL);
	CHECK(getrusage(RUSAGE_SELF, &slept) == 0);
	printf("sleeps %d, in status %d %d\n", slept.ru_nvcsw >= yielded.ru_nvcsw + 20,
	       in_status("voluntary_ctxt_switches:") >= slept.ru_nvcsw,
	       in_status("nonvoluntary_ctxt_switches:") >= slept.ru_nivcsw);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
}

static void *outlive(void *arg)
{
	char text[512], *at;
	const int fd = open("/proc/self/stat", O_RDONLY);
	ssize_t n;

	(void)arg;
	await_first_gone();
	n = pread(fd, text, sizeof(text) - 1, 0);
	CHECK(n > 0);
	text[n] = '\0';
	at = strrchr(text, ')');
	CHECK(at);
	printf("without its first thread: %c\n", at[2]);
	fflush(stdout);
	_exit(0);
}

static void first_gone(void)
{
	pthread_t thread;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(pthread_create(&thread, NULL, outlive, NULL) == 0);
		syscall(SYS_exit, 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "dumpable") == 0)
		return tell_dumpable("after exec") < 0;
	if (argc > 1)
		return printf("after exec %#x\n", personality(0xffffffff)) < 0;
	locking();
	limited();
	barriers();
	persona(argv);
	opening();
	sockets();
	kinds();
	clocks();
	not_running();
	first_gone();
	kept();
	dropped_ids();
	exec_dumpable();
	personas();
	resources();
	switches();
	nice_values();
	return 0;
}
