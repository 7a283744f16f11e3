/* SPDX-License-Identifier: MIT */
/*
 * The first program: arguments, environment, heap, a constructor, thread-local data, floating
 * point.
 */
#include "user.h"

#include <math.h>

static int constructed;
static _Thread_local int local = 41;
static const char *const words[] = { "one", "two", "three" }; /* relocated in a static-pie */

__attribute__((constructor)) static void construct(void)
{
	constructed = 1;
}

static void at_end(void)
{
	puts("at exit");
}

int main(int argc, char **argv)
{
	char *text = malloc(100);
	const char *value = getenv("GREETING");

	CHECK(text && constructed);
	atexit(at_end);
	local++;
	strcpy(text, value ? value : "hello");
	printf("%s, %d arguments\n", text, argc - 1);
	for (int i = 1; i < argc; i++)
		printf("%d: %s\n", i, argv[i]);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		printf("%s ", words[i]);
	printf("%d %.6f %s\n", local, sqrt(2.0 * (double)argc), strerror(ENOENT));
	free(text);
	return 0;
}
