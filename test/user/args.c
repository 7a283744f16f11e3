/* SPDX-License-Identifier: MIT */
/*
 * Prints its arguments, for tests of shells: as "recho" each in angle brackets on a line of its
 * own, with control characters visible; under any other name ("zecho") joined by blanks, as they
 * are.
 */
#include "user.h"

static void show(const char *arg)
{
	for (; *arg; arg++) {
		const unsigned char c = (unsigned char)*arg;

		if (c < ' ' || c == 127)
			printf("^%c", c == 127 ? '?' : c + 64);
		else
			putchar(c);
	}
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const int visible = strcmp(slash ? slash + 1 : argv[0], "recho") == 0;

	for (int i = 1; i < argc; i++) {
		if (visible) {
			printf("argv[%d] = <", i);
			show(argv[i]);
			puts(">");
		} else {
			printf("%s%s", i > 1 ? " " : "", argv[i]);
		}
	}
	if (!visible)
		putchar('\n');
	return 0;
}
