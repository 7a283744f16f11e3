/* SPDX-License-Identifier: MIT */
/*
 * Wild pointers, lengths and descriptors in system calls: prints name, result and errno of each,
 * for comparison with Linux. Raw calls, so that the C library does not look at the arguments
 * first.
 */
#include "user.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#define KERNEL_ADDR  0xffff800000000000UL
#define NONCANONICAL 0x0000800000000000UL
#define USER_END     0x00007ffffffff000UL
#define UNMAPPED     0x10000UL

static char *page;   /* readable and writable, the page after it is not mapped */
static char *rdonly; /* one page that may only be read */
static const char *self;

static const char *errno_name(int err)
{
	static const struct {
		int err;
		const char *name;
	} names[] = {
#define NAME(e) { e, #e }
		NAME(E2BIG),  NAME(EACCES),  NAME(EBADF),      NAME(ECHILD),       NAME(EFAULT),
		NAME(EINTR),  NAME(EINVAL),  NAME(EIO),        NAME(EISDIR),       NAME(ELOOP),
		NAME(EMFILE), NAME(ENOENT),  NAME(ENOEXEC),    NAME(ENAMETOOLONG), NAME(ENOMEM),
		NAME(ENOSYS), NAME(ENOTDIR), NAME(ENOTTY),     NAME(EOVERFLOW),    NAME(EPERM),
		NAME(ERANGE), NAME(EROFS),   NAME(ESPIPE),     NAME(ESRCH),        NAME(ENODEV),
		NAME(EAGAIN), NAME(EEXIST),  NAME(EOPNOTSUPP),
#undef NAME
	};
	static char number[16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].err == err)
			return names[i].name;
	snprintf(number, sizeof(number), "errno %d", err);
	return number;
}

static void show(const char *name, long ret)
{
	/* Success may depend on the host (how much was read, which address): only that it was. */
	printf("%-36s %s\n", name, ret < 0 ? errno_name(errno) : "ok");
}

#define CALL(name, ...) show(name, syscall(__VA_ARGS__))

static void read_and_write(int fd)
{
	struct iovec iov[2] = { { page, 8 }, { (void *)UNMAPPED, 8 } };
	struct iovec huge[2] = { { page, SSIZE_MAX }, { page, 1 } };

	CALL("read null", SYS_read, fd, NULL, 10);
	CALL("read unmapped", SYS_read, fd, UNMAPPED, 10);
	CALL("read kernel", SYS_read, fd, KERNEL_ADDR, 10);
	CALL("read noncanonical", SYS_read, fd, NONCANONICAL, 10);
	CALL("read past the end of user", SYS_read, fd, USER_END - 8, 4096);
	CALL("read into read-only", SYS_read, fd, rdonly, 10);
	CALL("read no length", SYS_read, fd, NULL, 0);
	CALL("read huge length", SYS_read, fd, page, -1L);
	CALL("read bad fd", SYS_read, 99, page, 10);
	CALL("read negative fd", SYS_read, -1, page, 10);
	CALL("read fd out of int", SYS_read, 0x100000000L + 99, page, 10);
	CALL("write unmapped", SYS_write, 2, UNMAPPED, 10);
	CALL("write kernel", SYS_write, 2, KERNEL_ADDR, 10);
	CALL("write to a file opened for reading", SYS_write, fd, page, 1);
	CALL("write bad fd", SYS_write, 1 << 20, page, 1);
	CALL("pread negative offset", SYS_pread64, fd, page, 10, -1L);
	CALL("pread bad pointer", SYS_pread64, fd, UNMAPPED, 10, 0L);
	CALL("readv bad array", SYS_readv, fd, UNMAPPED, 2);
	CALL("readv negative count", SYS_readv, fd, iov, -1);
	CALL("readv too many", SYS_readv, fd, iov, 1025);
	CALL("readv none", SYS_readv, fd, iov, 0);
	CALL("readv negative length", SYS_readv, fd, huge, 2);
	CALL("writev bad element", SYS_writev, 2, iov + 1, 1);
	CALL("writev bad array", SYS_writev, 2, KERNEL_ADDR, 1);
	CALL("sendfile bad out", SYS_sendfile, 99, fd, NULL, 10);
	CALL("sendfile bad in", SYS_sendfile, 1, 99, NULL, 10);
	CALL("sendfile bad offset", SYS_sendfile, 1, fd, UNMAPPED, 10);
	CALL("lseek bad whence", SYS_lseek, fd, 0, 77);
	CALL("lseek negative", SYS_lseek, fd, -5L, SEEK_SET);
	CALL("lseek bad fd", SYS_lseek, 99, 0, SEEK_SET);
	CALL("close bad fd", SYS_close, 99);
	CALL("close negative fd", SYS_close, -1);
}

static void paths(void)
{
	static char name[300], path[PATH_MAX + 10];
	const int fd = (int)syscall(SYS_open, self, O_RDONLY);

	memset(name, 'n', sizeof(name) - 1);
	name[0] = '/';
	memset(path, '/', sizeof(path) - 1);
	memset(page, 'x', PAGE); /* a string that runs into the unmapped page */
	CALL("open null", SYS_open, NULL, O_RDONLY);
	CALL("open kernel", SYS_open, KERNEL_ADDR, O_RDONLY);
	CALL("open unterminated", SYS_open, page + PAGE - 8, O_RDONLY);
	CALL("open empty", SYS_open, "", O_RDONLY);
	CALL("open missing", SYS_open, "/no/such/file", O_RDONLY);
	CALL("open missing in root", SYS_open, "/no-such-file", O_RDONLY);
	CALL("open below a file", SYS_openat, AT_FDCWD, self, O_RDONLY | O_DIRECTORY);
	CALL("open name too long", SYS_open, name, O_RDONLY);
	CALL("open path too long", SYS_open, path, O_RDONLY);
	CALL("open directory for writing", SYS_open, "/", O_RDWR);
	CALL("openat bad dirfd", SYS_openat, 99, "x", O_RDONLY);
	CALL("openat dirfd is a file", SYS_openat, fd, "x", O_RDONLY);
	CALL("openat absolute, bad dirfd", SYS_openat, 99, self, O_RDONLY);
	CALL("stat null result", SYS_stat, self, NULL);
	CALL("stat bad result", SYS_stat, self, UNMAPPED);
	CALL("stat read-only result", SYS_stat, self, rdonly);
	CALL("stat missing", SYS_stat, "/no-such-file", page);
	CALL("fstat bad fd", SYS_fstat, 99, page);
	CALL("fstat bad result", SYS_fstat, fd, KERNEL_ADDR);
	CALL("newfstatat bad flags", SYS_newfstatat, AT_FDCWD, self, page, 0x40000000);
	CALL("readlink not a link", SYS_readlink, self, page, 100);
	CALL("readlink no room", SYS_readlink, self, page, 0);
	CALL("readlink missing", SYS_readlink, "/no-such-link", page, 100);
	CALL("access bad mode", SYS_access, self, 0xff);
	CALL("access missing", SYS_access, "/no-such-file", F_OK);
	CALL("getdents on a file", SYS_getdents64, fd, page, PAGE);
	CALL("getdents bad fd", SYS_getdents64, 99, page, PAGE);
	CALL("chdir missing", SYS_chdir, "/no-such-dir");
	CALL("chdir to a file", SYS_chdir, self);
	CALL("getcwd no room", SYS_getcwd, page, 1);
	CALL("getcwd bad buffer", SYS_getcwd, KERNEL_ADDR, 4096);
	read_and_write(fd);
}

static void descriptors(void)
{
	CALL("dup bad fd", SYS_dup, 99);
	CALL("dup2 bad fd", SYS_dup2, 99, 5);
	CALL("dup2 negative target", SYS_dup2, 1, -1);
	CALL("dup3 same", SYS_dup3, 1, 1, 0);
	CALL("dup3 bad flags", SYS_dup3, 1, 50, 0x1234);
	CALL("fcntl bad fd", SYS_fcntl, 99, F_GETFD);
	CALL("fcntl bad command", SYS_fcntl, 1, 9999, 0);
	CALL("fcntl dup too high", SYS_fcntl, 1, F_DUPFD, 1 << 30);
	CALL("ioctl bad fd", SYS_ioctl, 99, 0x5401, page);
}

static void memory(void)
{
	CALL("mmap no length", SYS_mmap, 0, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CALL("mmap huge", SYS_mmap, 0, -1L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CALL("mmap wraps", SYS_mmap, 0, 0xfffffffffffff000UL, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CALL("mmap more than user space", SYS_mmap, 0, 1UL << 47, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CALL("mmap fixed unaligned", SYS_mmap, 0x12345, PAGE, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CALL("mmap fixed in kernel", SYS_mmap, KERNEL_ADDR, PAGE, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CALL("mmap fixed at the end", SYS_mmap, USER_END, PAGE, PROT_READ,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CALL("mmap neither shared nor private", SYS_mmap, 0, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0);
	CALL("mmap bad fd", SYS_mmap, 0, PAGE, PROT_READ, MAP_PRIVATE, 99, 0);
	CALL("munmap unaligned", SYS_munmap, 0x12345, PAGE);
	CALL("munmap no length", SYS_munmap, page, 0);
	CALL("munmap kernel", SYS_munmap, KERNEL_ADDR, PAGE);
	CALL("munmap wraps", SYS_munmap, PAGE, -1L);
	CALL("munmap nothing there", SYS_munmap, UNMAPPED, PAGE);
	CALL("mprotect unaligned", SYS_mprotect, page + 1, PAGE, PROT_READ);
	CALL("mprotect unmapped", SYS_mprotect, UNMAPPED, PAGE, PROT_READ);
	CALL("mprotect bad bits", SYS_mprotect, page, PAGE, 0x8000);
	CALL("mprotect no length", SYS_mprotect, page, 0, PROT_READ);
	CALL("mprotect wraps", SYS_mprotect, page, -1L, PROT_READ);
	CALL("mremap unaligned", SYS_mremap, page + 1, PAGE, PAGE, 0);
	CALL("mremap no new size", SYS_mremap, page, PAGE, 0, 0);
	CALL("mremap bad flags", SYS_mremap, page, PAGE, PAGE, 0x80);
	CALL("mremap fixed but not maymove", SYS_mremap, page, PAGE, PAGE, 2, page);
	CALL("mremap unmapped", SYS_mremap, UNMAPPED, PAGE, 2 * PAGE, 1);
	CALL("mremap past the mapping", SYS_mremap, page, 2 * PAGE, 4 * PAGE, 1);
	CALL("madvise unaligned", SYS_madvise, page + 1, PAGE, MADV_NORMAL);
	CALL("madvise bad advice", SYS_madvise, page, PAGE, 4242);
	CALL("madvise unmapped", SYS_madvise, UNMAPPED, PAGE, MADV_DONTNEED);
}

static void process(void)
{
	CALL("clock_gettime bad clock", SYS_clock_gettime, 999, page);
	CALL("clock_gettime bad pointer", SYS_clock_gettime, CLOCK_REALTIME, UNMAPPED);
	CALL("gettimeofday bad pointer", SYS_gettimeofday, KERNEL_ADDR, NULL);
	CALL("time bad pointer", SYS_time, UNMAPPED);
	CALL("getrandom bad pointer", SYS_getrandom, UNMAPPED, 16, 0);
	CALL("getrandom bad flags", SYS_getrandom, page, 16, 0x80);
	CALL("prlimit bad resource", SYS_prlimit64, 0, 99, NULL, page);
	CALL("prlimit bad pointer", SYS_prlimit64, 0, RLIMIT_STACK, NULL, UNMAPPED);
	CALL("sysinfo bad pointer", SYS_sysinfo, UNMAPPED);
	CALL("uname bad pointer", SYS_uname, KERNEL_ADDR);
	CALL("arch_prctl bad code", SYS_arch_prctl, 0x9999, 0);
	CALL("arch_prctl kernel address", SYS_arch_prctl, 0x1002, KERNEL_ADDR);
	CALL("rt_sigaction bad signal", SYS_rt_sigaction, 65, NULL, NULL, 8);
	CALL("rt_sigaction kill", SYS_rt_sigaction, SIGKILL, page, NULL, 8);
	CALL("rt_sigaction bad size", SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4);
	CALL("rt_sigaction bad pointer", SYS_rt_sigaction, SIGUSR1, UNMAPPED, NULL, 8);
	CALL("rt_sigprocmask bad how", SYS_rt_sigprocmask, 77, page, NULL, 8);
	CALL("rt_sigprocmask bad size", SYS_rt_sigprocmask, SIG_BLOCK, NULL, NULL, 7);
	CALL("rt_sigprocmask bad pointer", SYS_rt_sigprocmask, SIG_BLOCK, UNMAPPED, NULL, 8);
	CALL("kill bad signal", SYS_kill, getpid(), 65);
	CALL("kill no such process", SYS_kill, 0x3ffffffe, 0);
	CALL("tgkill bad ids", SYS_tgkill, -1, -1, 0);
	CALL("execve missing", SYS_execve, "/no-such-program", NULL, NULL);
	CALL("execve bad path", SYS_execve, UNMAPPED, NULL, NULL);
	CALL("no such call", SYS_getpid + 100000L);
	CALL("negative call", -5L);
}

int main(int argc, char **argv)
{
	(void)argc;
	self = argv[0];
	page = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	rdonly = page + 2 * PAGE;
	CHECK(munmap(page + PAGE, PAGE) == 0 && mprotect(rdonly, PAGE, PROT_READ) == 0);
	paths();
	descriptors();
	memory();
	process();
	return 0;
}
