/* SPDX-License-Identifier: MIT */
/*
 * Forks as far as it may, then checks that it is told so, and that all goes on afterwards:
 *	bomb user N	with RLIMIT_NPROC N and without rights, several at once
 *	bomb all	as root, until there is no room for more
 */
#include "user.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MOST 100000

/* Fork until it is refused; how many there were. They end with SIGTERM. */
static unsigned int fork_all(int *err)
{
	unsigned int n = 0;

	while (n < MOST) {
		const pid_t pid = fork();

		if (pid < 0)
			break;
		if (!pid) {
			for (;;)
				pause();
		}
		n++;
	}
	*err = errno;
	return n;
}

static unsigned int round_of_forks(int *err)
{
	unsigned int n, ended = 0;

	n = fork_all(err);
	signal(SIGTERM, SIG_IGN);
	CHECK(kill(0, SIGTERM) == 0);
	while (wait(NULL) > 0)
		ended++;
	signal(SIGTERM, SIG_DFL);
	CHECK(ended == n);
	return n;
}

int main(int argc, char **argv)
{
	const unsigned long limit = arg_number(argc, argv, 2, 50);
	struct rlimit rl = { limit, limit };
	unsigned int n;
	int err;

	CHECK(argc > 1);
	CHECK(setpgid(0, 0) == 0 || errno == EPERM);
	if (!strcmp(argv[1], "user")) {
		CHECK(setrlimit(RLIMIT_NPROC, &rl) == 0);
		CHECK(setgid(54321) == 0 && setuid(54321) == 0);
	}
	for (int i = 0; i < 3; i++) {
		n = round_of_forks(&err);
		if (!strcmp(argv[1], "user"))
			printf("%u children, then %s\n", n, strerror(err));
		else
			printf("%s children, then %s\n", n > 50 ? "many" : "few", strerror(err));
		fflush(stdout);
	}
	return 0;
}
