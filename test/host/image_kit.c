/* SPDX-License-Identifier: MIT */
/*
 * For the tests of file systems on images: a directory of one's own, and e2fsprogs' tools in it,
 * which lie in sbin and so not on everybody's path.
 */
#include "image_kit.h"

#include <stdarg.h>
#include <unistd.h>

int shell(const char *fmt, ...)
{
	char cmd[1024];
	va_list ap;
	int status;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	status = system(cmd);
	return status < 0 ? status : status >> 8;
}

void image_dir(char dir[64], const char *name)
{
	snprintf(dir, 64, "%s/%s.XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", name);
	MUST(mkdtemp(dir) != NULL);
}

void image_is_clean(struct ktest *t, const char *dir, const char *name, bool last)
{
	EXPECT_EQ(t,
		  shell("PATH=$PATH:/usr/sbin:/sbin e2fsck -fn %s/%s >%s/log 2>&1", dir, name, dir),
		  0);
	if (t->nr_failed)
		shell("cat %s/log >&2; echo files in %s >&2", dir, dir);
	else if (last)
		shell("rm -rf %s", dir);
}
