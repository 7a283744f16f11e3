/* SPDX-License-Identifier: MIT */
/*
 * Small calls: priorities of I/O, PR_SET_TSC, a shared futex behind the end of its file, ioctls of
 * sockets with bad addresses. Prints the same on both.
 */
#include "user.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/ioprio.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void result(const char *what, long ret)
{
	printf("%s: %ld%s%s\n", what, ret, ret < 0 ? " " : "", ret < 0 ? strerror(errno) : "");
}

static long set(int which, int who, int class, int level)
{
	return syscall(SYS_ioprio_set, which, who, class << 13 | level);
}

static void told(const char *what, int which, int who)
{
	const long ret = syscall(SYS_ioprio_get, which, who);

	if (ret < 0)
		result(what, ret);
	else
		printf("%s: class %ld, level %ld\n", what, ret >> 13, ret & 7);
}

static void priorities(void)
{
	pid_t pid;

	told("at first", IOPRIO_WHO_PROCESS, 0);
	CHECK(getpgrp() == getpid() || setpgid(0, 0) == 0);
	told("the group's", IOPRIO_WHO_PGRP, 0);
	result("best effort 7", set(IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_BE, 7));
	told("it is", IOPRIO_WHO_PROCESS, getpid());
	result("a class that is none", set(IOPRIO_WHO_PROCESS, 0, 4, 0));
	result("none of a level", set(IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_NONE, 1));
	result("nobody", set(IOPRIO_WHO_PROCESS, 1 << 29, IOPRIO_CLASS_BE, 1));
	told("nobody's", IOPRIO_WHO_PROCESS, 1 << 29);
	told("no group's", IOPRIO_WHO_PGRP, 1 << 29);
	result("which is none", set(4, 0, IOPRIO_CLASS_BE, 1));
	told("which is none", 0, 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		told("a child's", IOPRIO_WHO_PROCESS, 0);
		result("the group", set(IOPRIO_WHO_PGRP, 0, IOPRIO_CLASS_IDLE, 0));
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
	told("the parent's", IOPRIO_WHO_PROCESS, 0);
	result("none", set(IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_NONE, 0));
	told("it is", IOPRIO_WHO_PROCESS, 0);
	CHECK(setpriority(PRIO_PROCESS, 0, 10) == 0);
	told("by its nice value", IOPRIO_WHO_PGRP, 0);
}

static unsigned long counter(void)
{
	unsigned int lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (unsigned long)hi << 32 | lo;
}

static int ended(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void tsc(void)
{
	int is = 0;
	pid_t pid;

	result("TSC", prctl(PR_SET_TSC, 3));
	result("TSC", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
	CHECK(prctl(PR_GET_TSC, &is) == 0 && is == PR_TSC_SIGSEGV);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		_exit(counter() != 0);
	printf("read by a child: %d\n", ended(pid));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
		_exit(counter() != 0);
	}
	printf("allowed again: %d\n", ended(pid));
	result("TSC", prctl(PR_SET_TSC, PR_TSC_ENABLE));
	printf("read: %d\n", counter() != 0);
}

static void behind_the_end(void)
{
	const int fd = memfd_create("edges", 0);
	uint32_t *p;

	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	result("wake", syscall(SYS_futex, p, FUTEX_WAKE, 1, NULL, NULL, 0));
	CHECK(ftruncate(fd, 0) == 0);
	result("wake behind the end", syscall(SYS_futex, p, FUTEX_WAKE, 1, NULL, NULL, 0));
	CHECK(munmap(p, 4096) == 0);
	close(fd);
}

static void sockets(void)
{
	const int tcp = socket(AF_INET, SOCK_STREAM, 0);
	int mark = 7;

	CHECK(tcp >= 0);
	result("no address", ioctl(tcp, SIOCATMARK, 0));
	result("at the mark", ioctl(tcp, SIOCATMARK, &mark));
	printf("%d\n", mark);
	result("no interface", ioctl(tcp, SIOCSIFFLAGS, 0));
	close(tcp);
}

int main(void)
{
	priorities();
	tsc();
	behind_the_end();
	sockets();
	return 0;
}
