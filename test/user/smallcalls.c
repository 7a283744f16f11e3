/* SPDX-License-Identifier: MIT */
/*
 * Calls that programs try in passing: mlock and its kin, mincore, membarrier, personality,
 * openat2, calls on sockets that are none. Prints the same as on Linux.
 */
#include "user.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		return printf("after exec %#x\n", personality(0xffffffff)) < 0;
	locking();
	limited();
	barriers();
	persona(argv);
	opening();
	sockets();
	return 0;
}
