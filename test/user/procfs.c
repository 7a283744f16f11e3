/* SPDX-License-Identifier: MIT */
/*
 * /proc and /sys against what the program knows about itself by other means. Runs on Linux too.
 *
 * procfs          all of it
 * procfs walk N   read everything under /proc and /sys N times while processes come and go
 */
#include "user.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

static char text[1 << 20];

/* All of a file in reads of @chunk bytes; -1 with errno if it cannot be opened or read. */
static ssize_t slurp_fd(int fd, size_t chunk)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len,
			 chunk < sizeof(text) - 1 - len ? chunk : sizeof(text) - 1 - len)) > 0)
		len += n;
	text[len] = '\0';
	return n < 0 ? -1 : (ssize_t)len;
}

static ssize_t slurp(const char *path)
{
	const int fd = open(path, O_RDONLY);
	ssize_t len;
	int err;

	if (fd < 0)
		return -1;
	len = slurp_fd(fd, 4096);
	err = errno;
	close(fd);
	errno = err;
	return len;
}

static const char *must(const char *path)
{
	if (slurp(path) < 0)
		die("%s: %s", path, strerror(errno));
	return text;
}

/* The rest of the line that begins with @key. */
static const char *field(const char *key)
{
	const size_t len = strlen(key);

	for (const char *line = text; line && *line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (!strncmp(line, key, len))
			return line + len;
	die("no line %s", key);
}

static unsigned long long number(const char *key)
{
	return strtoull(field(key), NULL, 10);
}

static unsigned long long hexadecimal(const char *key)
{
	return strtoull(field(key), NULL, 16);
}

/* Field @nr of proc(5)'s /proc/<pid>/stat, from 3 on. */
static long long stat_field(int nr)
{
	const char *at = strrchr(text, ')') + 2;

	while (nr-- > 3)
		at = strchr(at, ' ') + 1;
	return strtoll(at, NULL, 10);
}

static char stat_state(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return strrchr(must(path), ')')[2];
}

/* --- reading ------------------------------------------------------------------------- */

static void reading(void)
{
	char whole[65536], part[100];
	ssize_t len, n;
	int fd = open("/proc/self/maps", O_RDONLY);

	CHECK(fd >= 0);
	len = slurp_fd(fd, 4096);
	CHECK(len > 200 && len < (ssize_t)sizeof(whole));
	memcpy(whole, text, len);
	CHECK(read(fd, part, 1) == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK(slurp_fd(fd, 7) == len && !memcmp(text, whole, len));
	n = pread(fd, part, sizeof(part), 50);
	CHECK(n > 0 && !memcmp(part, whole + 50, n));
	CHECK(lseek(fd, 100, SEEK_SET) == 100 && read(fd, part, 10) == 10 &&
	      !memcmp(part, whole + 100, 10));
	CHECK(pread(fd, part, 10, 1 << 28) == 0);
	close(fd);
	fd = open("/proc/self/maps", O_WRONLY); /* root may open it */
	CHECK(fd >= 0 ? write(fd, "x", 1) == -1 && errno == EINVAL : errno == EACCES);
	close(fd);
	CHECK(open("/proc/self/nothing", O_RDONLY) == -1 && errno == ENOENT);
	CHECK(open("/proc/self/nothing", O_RDWR | O_CREAT, 0600) == -1);
	CHECK(mkdir("/proc/x", 0700) == -1 && unlink("/proc/version") == -1);
	/* A file that stays open says what is true now after a seek. */
	fd = open("/proc/uptime", O_RDONLY);
	CHECK(slurp_fd(fd, 4096) > 0);
	snprintf(whole, sizeof(whole), "%.100s", text);
	usleep(50000);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && slurp_fd(fd, 4096) > 0 && strcmp(whole, text));
	close(fd);
	puts("reading: ok");
}

/* --- mappings ------------------------------------------------------------------------ */

/* The line of the mapping that has @addr, without its newline; NULL: none. */
static const char *mapping(const void *addr)
{
	static char line[512];
	unsigned long start, end;

	must("/proc/self/maps");
	for (const char *at = text; at && *at;
	     at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
		CHECK(sscanf(at, "%lx-%lx", &start, &end) == 2);
		if ((unsigned long)addr >= start && (unsigned long)addr < end) {
			snprintf(line, sizeof(line), "%.*s", (int)(strchr(at, '\n') - at), at);
			return line;
		}
	}
	return NULL;
}

static int has(const char *line, const char *what)
{
	return line && strstr(line, what);
}

static void mappings(void)
{
	char exe[256], rollup[64];
	const unsigned long vdso = getauxval(AT_SYSINFO_EHDR);
	unsigned long long before, after;
	volatile char *p;
	int local;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	CHECK(n > 0);
	exe[n] = '\0';
	CHECK(has(mapping((void *)(uintptr_t)mappings), exe) &&
	      has(mapping((void *)(uintptr_t)mappings), " r-xp "));
	CHECK(has(mapping(&local), "[stack]"));
	CHECK(has(mapping((char *)sbrk(0) - 1), "[heap]"));
	CHECK(has(mapping((void *)vdso), "[vdso]") &&
	      has(mapping((void *)(vdso - 4096)), "[vvar]"));
	p = mmap(NULL, 400 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && has(mapping((void *)p), " rw-p 00000000 00:00 0"));
	before = strtoull(strchr(must("/proc/self/statm"), ' '), NULL, 10);
	for (int i = 0; i < 300; i++)
		p[i * PAGE] = 1;
	after = strtoull(strchr(must("/proc/self/statm"), ' '), NULL, 10);
	CHECK(after >= before + 290 && after <= before + 700);
	must("/proc/self/status");
	CHECK(number("VmRSS:") >= after * 4 - 400 && number("VmSize:") >= number("VmRSS:"));
	must("/proc/self/smaps_rollup");
	snprintf(rollup, sizeof(rollup), "%llu", number("Rss:"));
	CHECK(strtoull(rollup, NULL, 10) >= after * 4 - 400);
	CHECK(mprotect((void *)p, PAGE, PROT_READ) == 0 && has(mapping((void *)p), " r--p "));
	CHECK(has(mapping((void *)(p + PAGE)), " rw-p "));
	CHECK(munmap((void *)p, 400 * PAGE) == 0 && !mapping((void *)p));
	puts("mappings: ok");
}

/* --- a process ----------------------------------------------------------------------- */

static void *sleeper(void *arg)
{
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return NULL;
}

static void threads(void)
{
	pthread_barrier_t barrier;
	pthread_t thread[3];
	struct dirent *e;
	int count = 0;
	DIR *dir;

	pthread_barrier_init(&barrier, NULL, 4);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&thread[i], NULL, sleeper, &barrier) == 0);
	pthread_barrier_wait(&barrier);
	must("/proc/self/stat");
	CHECK(stat_field(20) == 4);
	must("/proc/self/status");
	CHECK(number("Threads:\t") == 4);
	dir = opendir("/proc/self/task");
	CHECK(dir);
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.') {
			char path[300];

			CHECK(atoi(e->d_name) > 0);
			snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
			must(path);
			CHECK(number("Pid:\t") == strtoull(e->d_name, NULL, 10));
			CHECK(number("Tgid:\t") == (unsigned long long)getpid());
			count++;
		}
	closedir(dir);
	CHECK(count == 4);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	puts("threads: ok");
}

static void on_signal(int signo)
{
	CHECK(signo == SIGUSR1);
}

static void identity(void)
{
	const char *name = "a (b) c";
	struct rlimit rl = { 100, 200 };
	sigset_t set;
	int fd;

	CHECK(prctl(PR_SET_NAME, name) == 0);
	CHECK(!strcmp(must("/proc/self/comm"), "a (b) c\n"));
	must("/proc/self/stat");
	CHECK(strtol(text, NULL, 10) == getpid() && has(text, " (a (b) c) R "));
	CHECK(stat_field(4) == getppid() && stat_field(5) == getpgrp() &&
	      stat_field(6) == getsid(0));
	must("/proc/self/status");
	CHECK(!strncmp(field("Name:\t"), "a (b) c\n", 8) &&
	      !strncmp(field("State:\t"), "R (running)", 11));
	CHECK(number("PPid:\t") == (unsigned long long)getppid() && number("Uid:\t") == getuid());
	fd = open("/proc/self/comm", O_WRONLY | O_TRUNC);
	CHECK(fd >= 0 && write(fd, "procfs\n", 7) == 7 && close(fd) == 0);
	CHECK(!strcmp(must("/proc/thread-self/comm"), "procfs\n"));
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR && signal(SIGHUP, SIG_IGN) != SIG_ERR);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR2) == 0);
	must("/proc/self/status");
	CHECK(hexadecimal("SigBlk:") == 1u << (SIGUSR2 - 1) &&
	      hexadecimal("SigIgn:") & 1u << (SIGHUP - 1));
	CHECK(hexadecimal("SigCgt:") & 1u << (SIGUSR1 - 1));
	CHECK((hexadecimal("SigPnd:") | hexadecimal("ShdPnd:")) == 1u << (SIGUSR2 - 1));
	signal(SIGUSR2, SIG_IGN);
	CHECK(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
	CHECK(setrlimit(RLIMIT_NOFILE, &rl) == 0);
	must("/proc/self/limits");
	CHECK(!strncmp(field("Max open files"),
		       "            100                  200                  files", 58));
	puts("identity: ok");
}

static void memory_of_it(int argc, char **argv)
{
	uint64_t *aux = (uint64_t *)text;
	size_t len = 0;
	ssize_t n = slurp("/proc/self/cmdline");

	for (int i = 0; i < argc; i++) {
		CHECK(!strcmp(text + len, argv[i]));
		len += strlen(argv[i]) + 1;
	}
	CHECK(n == (ssize_t)len);
	n = slurp("/proc/self/environ");
	len = 0;
	for (char **e = environ; *e; e++) {
		CHECK(!strcmp(text + len, *e));
		len += strlen(*e) + 1;
	}
	CHECK(n == (ssize_t)len);
	n = slurp("/proc/self/auxv");
	CHECK(n > 0 && n % 16 == 0 && aux[n / 8 - 2] == AT_NULL);
	for (int i = 0; aux[i]; i += 2) /* HWCAP is the C library's to change */
		CHECK(aux[i] == AT_HWCAP || aux[i] == AT_HWCAP2 || aux[i + 1] == getauxval(aux[i]));
	puts("memory: ok");
}

/* --- other processes ----------------------------------------------------------------- */

static void others(void)
{
	char path[64], buf[64];
	int fd, status, fds[2];
	pid_t child;

	CHECK(pipe(fds) == 0);
	child = fork();
	if (child == 0) {
		close(fds[1]);
		_exit(read(fds[0], buf, 1) == 0 ? 7 : 1);
	}
	close(fds[0]);
	snprintf(path, sizeof(path), "/proc/%d/status", child);
	must(path);
	CHECK(number("PPid:\t") == (unsigned long long)getpid());
	fd = open(path, O_RDONLY);
	CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child);
	CHECK(stat_state(child) == 'T');
	CHECK(kill(child, SIGCONT) == 0);
	close(fds[1]);
	while (stat_state(child) != 'Z')
		usleep(1000);
	snprintf(path, sizeof(path), "/proc/%d/maps", child);
	CHECK(slurp(path) == 0);
	CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
	CHECK(read(fd, buf, sizeof(buf)) == -1 && errno == ESRCH);
	close(fd);
	CHECK(open(path, O_RDONLY) == -1 && errno == ENOENT);
	puts("others: ok");
}

/* A process of somebody else tells its state, but not what is in it. */
static void permissions(void)
{
	static const char *const closed[] = { "environ", "auxv", "maps", "fd/0", "fdinfo/0" };
	static const char *const open_to_all[] = { "stat",    "status", "statm",
						   "cmdline", "comm",   "limits" };
	char path[64], buf[256];
	int status;
	pid_t child;

	if (getuid() != 0)
		return;
	child = fork();
	if (child == 0) {
		CHECK(setgroups(0, NULL) == 0 && setgid(1234) == 0 && setuid(1234) == 0);
		for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", getppid(), closed[i]);
			CHECK(open(path, O_RDONLY) == -1 && errno == EACCES);
		}
		for (size_t i = 0; i < sizeof(open_to_all) / sizeof(open_to_all[0]); i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s", getppid(), open_to_all[i]);
			must(path);
		}
		snprintf(path, sizeof(path), "/proc/%d/exe", getppid());
		CHECK(readlink(path, buf, sizeof(buf)) == -1 && errno == EACCES);
		snprintf(path, sizeof(path), "/proc/%d/fd", getppid());
		CHECK(opendir(path) == NULL && errno == EACCES);
		must("/proc/self/status");
		CHECK(number("Uid:\t") == 1234 && number("Gid:\t") == 1234);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	puts("permissions: ok");
}

/* 0, or the errno of writing @value to @path. */
static int put(const char *path, const char *value)
{
	const int fd = open(path, O_WRONLY);
	const ssize_t n = fd < 0 ? -1 : write(fd, value, strlen(value));
	const int err = n < 0 ? errno : 0;

	CHECK(n < 0 || n == (ssize_t)strlen(value));
	if (fd >= 0)
		close(fd);
	return err;
}

#define LOGINUID "/proc/self/loginuid"

static void logged_in(void)
{
	char session[16], path[64];
	int status;

	CHECK(!strcmp(must(LOGINUID), "4294967295"));
	CHECK(put(LOGINUID, "x") == EINVAL && put(LOGINUID, "4294967296") == EINVAL);
	snprintf(path, sizeof(path), "/proc/%d/loginuid", getppid());
	CHECK(put(path, "77") == EPERM);
	CHECK(put(LOGINUID, "77") == 0 && !strcmp(must(LOGINUID), "77"));
	snprintf(session, sizeof(session), "%s", must("/proc/self/sessionid"));
	CHECK(strtoul(session, NULL, 10) > 0 && strcmp(session, "4294967295"));
	if (fork() == 0) {
		CHECK(!strcmp(must(LOGINUID), "77"));
		CHECK(!strcmp(must("/proc/self/sessionid"), session));
		CHECK(setgid(1234) == 0 && setuid(1234) == 0);
		CHECK(prctl(PR_SET_DUMPABLE, 1) == 0); /* or the file is root's */
		CHECK(put(LOGINUID, "78") == EPERM && !strcmp(must(LOGINUID), "77"));
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
	/* With CAP_AUDIT_CONTROL again, which begins another session, or ends it. */
	CHECK(put(LOGINUID, "78") == 0 && strcmp(must("/proc/self/sessionid"), session));
	CHECK(put(LOGINUID, "4294967295") == 0);
	CHECK(!strcmp(must("/proc/self/sessionid"), "4294967295"));
}

/* As whom somebody logged in stays with all that the session starts. */
static void login(void)
{
	int status;

	if (getuid() != 0)
		return;
	if (fork() == 0) {
		logged_in();
		_exit(0);
	}
	CHECK(wait(&status) > 0 && status == 0);
	CHECK(!strcmp(must(LOGINUID), "4294967295"));
	puts("login: ok");
}

/* --- descriptors --------------------------------------------------------------------- */

static void descriptors(const char *self)
{
	char path[64], link[256], want[64], a[16], b[16];
	struct stat st, again;
	int fds[2], fd, dup_fd;
	ssize_t n;

	CHECK(pipe(fds) == 0 && fstat(fds[0], &st) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	n = readlink(path, link, sizeof(link));
	snprintf(want, sizeof(want), "pipe:[%lu]", (unsigned long)st.st_ino);
	CHECK(n == (ssize_t)strlen(want) && !memcmp(link, want, n));
	CHECK(stat(path, &again) == 0 && again.st_ino == st.st_ino && S_ISFIFO(again.st_mode));
	CHECK(lstat(path, &again) == 0 && S_ISLNK(again.st_mode));
	/* Another end of the same pipe. */
	fd = open(path, O_WRONLY);
	CHECK(fd >= 0 && write(fd, "hello", 5) == 5 && read(fds[0], a, sizeof(a)) == 5 &&
	      !memcmp(a, "hello", 5));
	close(fd);
	close(fds[1]);
	CHECK(read(fds[0], a, sizeof(a)) == 0);
	close(fds[0]);
	CHECK(readlink(path, link, sizeof(link)) == -1 && errno == ENOENT);
	/* A file is opened again, with an offset of its own. */
	fd = open(self, O_RDONLY);
	CHECK(fd >= 0 && read(fd, a, 16) == 16);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	dup_fd = open(path, O_RDONLY);
	CHECK(dup_fd >= 0 && read(dup_fd, b, 16) == 16 && !memcmp(a, b, 16));
	CHECK(fstat(fd, &st) == 0 && fstat(dup_fd, &again) == 0 && st.st_ino == again.st_ino);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	must(path);
	CHECK(number("pos:\t") == 16);
	close(dup_fd);
	close(fd);
	/* A working directory is one, whatever it is called. */
	CHECK(chdir("/proc/self/cwd/..") == 0);
	puts("descriptors: ok");
}

/* --- the system ---------------------------------------------------------------------- */

static int count_lines(const char *key)
{
	int n = 0;

	for (const char *line = text; line && *line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		n += !strncmp(line, key, strlen(key));
	return n;
}

static void the_system(void)
{
	struct utsname un;
	struct sysinfo si;
	cpu_set_t set;
	char want[300];
	int cpus, first, last;

	CHECK(uname(&un) == 0 && sysinfo(&si) == 0 && sched_getaffinity(0, sizeof(set), &set) == 0);
	snprintf(want, sizeof(want), "%s\n", un.release);
	CHECK(!strcmp(must("/proc/sys/kernel/osrelease"), want));
	snprintf(want, sizeof(want), "%s\n", un.nodename);
	CHECK(!strcmp(must("/proc/sys/kernel/hostname"), want));
	CHECK(!strcmp(must("/proc/sys/kernel/ostype"), "Linux\n"));
	must("/proc/meminfo");
	CHECK(number("MemTotal:") == si.totalram * si.mem_unit / 1024);
	CHECK(number("MemFree:") <= number("MemTotal:") &&
	      number("MemAvailable:") <= number("MemTotal:"));
	cpus = CPU_COUNT(&set);
	must("/proc/cpuinfo");
	CHECK(count_lines("processor\t: ") == cpus && count_lines("flags\t\t: ") == cpus);
	must("/proc/stat");
	CHECK(count_lines("cpu") == cpus + 1 && number("btime ") > 1700000000);
	must("/sys/devices/system/cpu/online");
	last = sscanf(text, "%d-%d", &first, &last) == 2 ? last : first;
	CHECK(first == 0 && last == cpus - 1);
	CHECK(sysconf(_SC_NPROCESSORS_ONLN) == cpus);
	CHECK(strtod(must("/proc/uptime"), NULL) + 3 > (double)si.uptime);
	CHECK(strlen(must("/proc/sys/kernel/random/uuid")) == 37 && text[14] == '4');
	must("/proc/self/mounts");
	CHECK(strstr(text, " / ") && has(text, "proc /proc proc "));
	puts("system: ok");
}

/* --- walking ------------------------------------------------------------------------- */

static unsigned long nr_files, nr_dirs;

/* Errors that a file may answer while processes end, or because of what it is. */
static void walk_error(const char *path)
{
	if (errno != ESRCH && errno != ENOENT && errno != EACCES && errno != EINVAL &&
	    errno != EIO && errno != EPERM && errno != ENXIO)
		die("%s: %s", path, strerror(errno));
}

static void walk(const char *path, int depth)
{
	struct dirent *e;
	char name[1024];
	struct stat st;
	int fd;
	DIR *dir = opendir(path);

	if (!dir) {
		walk_error(path);
		return;
	}
	nr_dirs++;
	while (errno = 0, e = readdir(dir)) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
		if (lstat(name, &st)) {
			walk_error(name);
			continue;
		}
		if (e->d_type != DT_UNKNOWN && (st.st_mode & S_IFMT) >> 12 != e->d_type)
			die("%s: type %o, listed as %d", name, st.st_mode, e->d_type);
		if (S_ISDIR(st.st_mode) && depth < 12) {
			walk(name, depth + 1);
		} else if (S_ISLNK(st.st_mode)) {
			if (readlink(name, text, sizeof(text)) < 0)
				walk_error(name);
		} else if (S_ISREG(st.st_mode)) {
			fd = open(name, O_RDONLY | O_NONBLOCK);
			if (fd < 0 || slurp_fd(fd, 333) < 0)
				walk_error(name);
			if (fd >= 0)
				close(fd);
			nr_files++;
		}
	}
	if (errno)
		walk_error(path);
	closedir(dir);
}

static void come_and_go(int seconds_at_most)
{
	const time_t end = time(NULL) + seconds_at_most;

	while (getppid() != 1 && time(NULL) < end) {
		const pid_t child = fork();

		if (child == 0)
			_exit(0);
		CHECK(waitpid(child, NULL, 0) == child);
	}
	_exit(0);
}

static void walks(unsigned long times)
{
	pid_t churn[2];

	for (int i = 0; i < 2; i++)
		if ((churn[i] = fork()) == 0)
			come_and_go(120);
	for (unsigned long i = 0; i < times; i++) {
		walk("/proc", 0);
		walk("/sys", 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(kill(churn[i], SIGKILL) == 0 && waitpid(churn[i], NULL, 0) == churn[i]);
	printf("walked: %s\n",
	       nr_files > 200 * times && nr_dirs > 30 * times ? "ok" : "too little");
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "walk")) {
		walks(arg_number(argc, argv, 2, 3));
		return 0;
	}
	memory_of_it(argc, argv);
	reading();
	mappings();
	threads();
	others();
	permissions();
	login();
	descriptors(argv[0]);
	the_system();
	identity();
	return 0;
}
