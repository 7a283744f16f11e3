/* SPDX-License-Identifier: MIT */
/* The rights of a group while lists come and go beneath the question. */
#include <fs/acl.h>
#include <fs/fs.h>
#include <lib/compiler.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

#define GROUP 50

/* After its list has been read the @n-th time the file is so. */
struct step {
	bool list; /* that reading finds one, which lets the group read */
	bool acl;
	uint32_t mode;
};

struct changing {
	struct fs_inode in;
	struct fs_stat st;
	const struct step *steps;
	unsigned int nr_steps, at;
};

static struct changing *changing(const struct fs_inode *in)
{
	return container_of(in, struct changing, in);
}

static void op_stat(const struct fs_inode *in, struct fs_stat *out)
{
	*out = changing(in)->st;
}

static int64_t op_xattr_get(struct fs_inode *in, const char *name, size_t len, void *buf,
			    size_t size)
{
	static const uint8_t list[] = {
		2,   0,   0,  0, 1, 0, 7,   0,   255, 255, 255, 255, 4, 0, 4,   0,   255, 255,
		255, 255, 16, 0, 7, 0, 255, 255, 255, 255, 32,  0,   0, 0, 255, 255, 255, 255,
	};
	struct changing *c = changing(in);
	const struct step *s = &c->steps[c->at % c->nr_steps];

	c->at++;
	c->st.mode = S_IFREG | s->mode;
	c->st.acl = s->acl;
	c->st.ctime.nsec++;
	if (!s->list)
		return -ENODATA;
	memcpy(buf, list, sizeof(list));
	return sizeof(list);
}

/* 0: as a member of the group may do all of @want with a file that was of 0770 and had a list. */
static int asked(const struct step *steps, unsigned int nr, uint32_t want)
{
	static const struct fs_ops ops = { .stat = op_stat, .xattr_get = op_xattr_get };
	static const struct fs_cred cred = { .uid = 1000, .gid = GROUP };
	struct changing c = {
		.in.ops = &ops,
		.st = { .mode = S_IFREG | 0770, .uid = 1, .gid = GROUP, .acl = true },
		.steps = steps,
		.nr_steps = nr,
	};
	struct fs_stat st;
	const int err = fs_stat_for(&c.in, &cred, &st);

	return err ? err : fs_stat_access(&cred, &st, want);
}

static void a_mask_is_nobodys_right(struct ktest *t)
{
	static const struct step gone[] = { { false, false, 0740 } };
	static const struct step back[] = { { false, true, 0770 }, { true, true, 0770 } };
	static const struct step other[] = { { false, true, 0740 } };
	static const struct step default_only[] = { { false, true, 0770 } };
	static const struct step for_ever[] = { { false, true, 0770 }, { false, true, 0760 } };

	EXPECT_EQ(t, asked(gone, 1, FS_MAY_READ), 0);
	EXPECT_EQ(t, asked(gone, 1, FS_MAY_WRITE), -EACCES);
	EXPECT_EQ(t, asked(back, 2, FS_MAY_READ), 0);
	EXPECT_EQ(t, asked(back, 2, FS_MAY_WRITE), -EACCES);
	EXPECT_EQ(t, asked(other, 1, FS_MAY_READ), 0);
	EXPECT_EQ(t, asked(other, 1, FS_MAY_WRITE), -EACCES);
	EXPECT_EQ(t, asked(default_only, 1, FS_MAY_WRITE), 0);
	EXPECT_EQ(t, asked(for_ever, 2, FS_MAY_READ), -EACCES);
}

static const struct ktest_case stat_for_cases[] = {
	KTEST(a_mask_is_nobodys_right),
	{ 0 },
};
static const struct ktest_suite stat_for_suite = { .name = "fs.stat_for", .cases = stat_for_cases };
KTEST_SUITE(stat_for_suite);
