/* SPDX-License-Identifier: MIT */
/*
 * The helper in the Linux guests of ./tessera run --sweep --beside-linux, beside the program:
 *
 *	guest serve MIB			serve MIB of locked memory by NBD on TCP port 10809
 *	guest attach DEV IP MIB		connect DEV (/dev/nbd0) to such a server
 *	guest run BYTES PROG ARGV...	run PROG in a cgroup of that size (0: no limit), and tell
 *
 * Failure:	a line on stderr and status 1; the launcher reads both.
 * Limits:	both ends of NBD are ours, so the handshake is left out: a connection begins with
 *		the transmission phase (simple replies), which is all that Linux's client speaks.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nbd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT   10809
#define CGROUP "/sys/fs/cgroup/run"

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Read or write all of it; the process ends with the connection. */
static void transfer(int fd, void *data, size_t len, int out)
{
	char *at = data;

	while (len) {
		const ssize_t n = out ? write(fd, at, len) : read(fd, at, len);

		if (n <= 0)
			_exit(0);
		at += n;
		len -= (size_t)n;
	}
}

static void serve_requests(int sock, char *ram, uint64_t size)
{
	for (;;) {
		struct nbd_reply reply = { .magic = htonl(NBD_REPLY_MAGIC) };
		struct nbd_request req;
		uint32_t type, len;
		uint64_t from;

		transfer(sock, &req, sizeof(req), 0);
		type = ntohl(req.type) & 0xffff;
		len = ntohl(req.len);
		from = be64toh(req.from);
		if (type == NBD_CMD_DISC)
			_exit(0);
		if (type <= NBD_CMD_WRITE && (from > size || len > size - from))
			_exit(1);
		memcpy(reply.handle, req.handle, sizeof(reply.handle));
		if (type == NBD_CMD_WRITE)
			transfer(sock, ram + from, len, 0);
		transfer(sock, &reply, sizeof(reply), 1);
		if (type == NBD_CMD_READ)
			transfer(sock, ram + from, len, 1);
	}
}

static void serve(unsigned long mib)
{
	struct sockaddr_in me = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	const size_t size = mib << 20;
	char *ram = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (ram == MAP_FAILED)
		fail("mmap");
	if (bind(listener, (struct sockaddr *)&me, sizeof(me)) || listen(listener, 4))
		fail("listen");
	if (daemon(0, 0))
		fail("daemon");
	for (;;) {
		const int sock = accept(listener, NULL, NULL);

		if (sock >= 0 && fork() == 0) {
			setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
			serve_requests(sock, ram, size);
		}
		close(sock);
	}
}

static void attach(const char *dev, const char *ip, unsigned long mib)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	const int sock = socket(AF_INET, SOCK_STREAM, 0), disk = open(dev, O_RDWR), on = 1;

	if (disk < 0)
		fail(dev);
	if (inet_pton(AF_INET, ip, &to.sin_addr) != 1 ||
	    connect(sock, (struct sockaddr *)&to, sizeof(to)))
		fail(ip);
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	ioctl(disk, NBD_CLEAR_SOCK);
	if (ioctl(disk, NBD_SET_BLKSIZE, 4096ul) || ioctl(disk, NBD_SET_SIZE_BLOCKS, mib * 256) ||
	    ioctl(disk, NBD_SET_FLAGS, (unsigned long)NBD_FLAG_HAS_FLAGS) ||
	    ioctl(disk, NBD_SET_SOCK, sock))
		fail("nbd");
	mlockall(MCL_CURRENT | MCL_FUTURE);
	if (daemon(0, 0))
		fail("daemon");
	ioctl(disk, NBD_DO_IT); /* lends this process to the driver until it disconnects */
}

static void put(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

/* The number behind @name in a file of such lines (NULL: the file is a number); -1: none. */
static long long number_in(const char *path, const char *name)
{
	const size_t len = name ? strlen(name) : 0;
	long long value = -1;
	char line[256];
	FILE *f = fopen(path, "r");

	while (f && value < 0 && fgets(line, sizeof(line), f)) {
		if (!name)
			value = atoll(line);
		else if (strncmp(line, name, len) == 0 && line[len] == ' ')
			value = atoll(line + len);
	}
	if (f)
		fclose(f);
	return value;
}

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void run(const char *bytes, char **argv)
{
	const char *vmstat = "/proc/vmstat";
	long long in, out, began, took;
	struct rusage used;
	int status;
	pid_t pid;

	if (mkdir(CGROUP, 0755))
		fail(CGROUP);
	put(CGROUP "/memory.max", strcmp(bytes, "0") ? bytes : "max");
	in = number_in(vmstat, "pswpin");
	out = number_in(vmstat, "pswpout");
	began = now_ns();
	pid = fork();
	if (pid == 0) {
		const int null = open("/dev/null", O_WRONLY), input = open("/input", O_RDONLY);

		put(CGROUP "/cgroup.procs", "0");
		dup2(input, 0);
		dup2(null, 1);
		dup2(null, 2);
		execv(argv[0], argv + 1);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid)
		fail("fork");
	took = now_ns() - began;
	printf("{\"status\":%d,\"ns\":%lld,\"peak\":%lld,\"faults\":%ld,"
	       "\"in\":%lld,\"out\":%lld}\n",
	       status, took, number_in(CGROUP "/memory.peak", NULL), used.ru_majflt,
	       number_in(vmstat, "pswpin") - in, number_in(vmstat, "pswpout") - out);
	/* Processes that it has left running end with the cgroup. */
	put(CGROUP "/cgroup.kill", "1");
	while (rmdir(CGROUP) && errno == EBUSY)
		usleep(10000);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(strtoul(argv[2], NULL, 10));
	else if (argc == 5 && !strcmp(argv[1], "attach"))
		attach(argv[2], argv[3], strtoul(argv[4], NULL, 10));
	else if (argc >= 5 && !strcmp(argv[1], "run"))
		run(argv[2], argv + 3);
	else
		return 2;
	return 0;
}
