/* SPDX-License-Identifier: MIT */
/*
 * Ends in the way that argv[1] names, after a line on stdout.
 */
#include "user.h"

#include <signal.h>
#include <sys/mman.h>

static volatile int zero;
static volatile int sink;

static void jump_to_data(void)
{
	static char code[16] = { (char)0xc3 };

	((void (*)(void))(uintptr_t)code)();
}

__attribute__((noinline)) static int overflow_stack(int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	if (depth == zero - 1)
		return 0; /* never, which the compiler cannot know */
	return overflow_stack(depth + 1) + frame[0];
}

int main(int argc, char **argv)
{
	volatile const uintptr_t text = (uintptr_t)main;
	const char *how = argc > 1 ? argv[1] : "";

	printf("about to end by %s\n", how);
	fflush(stdout);
	if (!strcmp(how, "null"))
		*(volatile int *)(uintptr_t)zero = 1;
	else if (!strcmp(how, "wild"))
		sink = *(volatile int *)0xdead00000000;
	else if (!strcmp(how, "noncanonical"))
		sink = *(volatile int *)0x8000000000000000;
	else if (!strcmp(how, "kernel"))
		sink = *(volatile int *)0xffffffff80000000;
	else if (!strcmp(how, "text"))
		*(volatile char *)text = 1;
	else if (!strcmp(how, "nx"))
		jump_to_data();
	else if (!strcmp(how, "stack"))
		sink = overflow_stack(0);
	else if (!strcmp(how, "abort"))
		abort();
	else if (!strcmp(how, "fpe"))
		sink = (sink + 7) / zero;
	else if (!strcmp(how, "ill"))
		__asm__ volatile("ud2");
	else if (!strcmp(how, "trap"))
		__asm__ volatile("int3");
	else if (!strcmp(how, "privileged"))
		__asm__ volatile("hlt");
	else if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(how, "term"))
		raise(SIGTERM);
	else if (!strcmp(how, "exit"))
		_exit((int)arg_number(argc, argv, 2, 0));
	die("still alive after %s", how);
}
