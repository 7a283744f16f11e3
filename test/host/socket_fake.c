/* SPDX-License-Identifier: MIT */
/*
 * Files and paths as sockets call them, and helpers for tests.
 */
#include "socket_fake.h"

#include <stdlib.h>
#include <string.h>

#include <lib/err.h>
#include <processor/client/names.h>
#include <processor/ipc/async.h>
#include <processor/process/process.h>
#include <processor/vfs/path.h>
#include <processor/vfs/uio.h>

#include "ipc_fake.h"

struct file *fake_fds[16];

uint64_t file_max(void)
{
	return 1000;
}

struct file *fd_get(int fd)
{
	if (fd < 0 || fd >= (int)ARRAY_SIZE(fake_fds) || !fake_fds[fd])
		return ERR_PTR(-EBADF);
	file_get(fake_fds[fd]);
	return fake_fds[fd];
}

int files_reserve(struct files *fs, int from, bool cloexec)
{
	for (int i = from; i < (int)ARRAY_SIZE(fake_fds); i++) {
		if (!fake_fds[i])
			return i;
	}
	return -EMFILE;
}

void files_fill(struct files *fs, int fd, struct file *f)
{
	fake_fds[fd] = f;
}

void files_unreserve(struct files *fs, int fd)
{
}

/* A file by its path: below /root that of a storage node, which is there already. */
struct fake_inode {
	struct inode inode;
	char text[LINUX_UNIX_PATH + 1];
	bool made;
};
static struct fake_inode fake_inodes[16];

static int getattr(struct inode *inode, struct file_attr *attr)
{
	const struct fake_inode *f = container_of(inode, struct fake_inode, inode);

	*attr = (struct file_attr){ 0 };
	if (!strncmp(f->text, "/root/", 6)) {
		attr->file.node = 3;
		for (const char *p = f->text; *p; p++)
			attr->file.ino = attr->file.ino * 31 + (uint8_t)*p;
	}
	return 0;
}

static struct fake_inode *inode_of(const char *text)
{
	fake_getattr = getattr;
	for (size_t i = 0; i < ARRAY_SIZE(fake_inodes); i++) {
		struct fake_inode *f = &fake_inodes[i];

		if (!f->text[0]) {
			strcpy(f->text, text);
			f->inode.mode = strstr(text, "socket") ? S_IFSOCK : S_IFREG;
		}
		if (!strcmp(f->text, text)) {
			refcount_set(&f->inode.refs, 1000000); /* it stays */
			return f;
		}
	}
	abort();
}

int path_make_node(const char *text, uint32_t mode, struct inode **out)
{
	struct fake_inode *f = inode_of(text);

	if (strncmp(text, "/root/", 6) && strncmp(text, "/tmp/", 5))
		return -EROFS;
	if (f->made)
		return -EEXIST;
	f->made = true;
	*out = &f->inode;
	return 0;
}

int fs_state_walk(struct fs_state *fs, const struct fs_cred *cred, const char *text, uint32_t flags,
		  uint32_t access, struct walk_result *res)
{
	struct fake_inode *f = inode_of(text);

	if (strstr(text, "locked"))
		return -EACCES;
	if (strncmp(text, "/root/", 6) && !f->made)
		return -ENOENT;
	res->at.inode = &f->inode;
	return 0;
}

void walk_result_put(struct walk_result *res)
{
}

void process_cred(struct fs_cred *cred)
{
	memset(cred, 0, sizeof(*cred));
}

struct file_owner async_owner(struct file *f)
{
	return f->owner;
}

void owner_signal(const struct file_owner *o, const struct linux_siginfo *info)
{
}

int fake_gateway_answer;

/* There is one processor: names are nobody else's. */
int names_set(struct name_entry **entry, const struct vnode_name *name,
	      struct kmem_account *account)
{
	static int there;

	*entry = (struct name_entry *)(void *)&there;
	return name->kind == NAME_GATEWAY ? __atomic_load_n(&fake_gateway_answer, __ATOMIC_SEQ_CST)
					  : 0;
}

void names_drop(struct name_entry *entry)
{
}

void names_hash(const void *name, size_t len, uint8_t out[16])
{
	const uint8_t *p = name;
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3;
	memset(out, 0, 16);
	memcpy(out, &h, sizeof(h));
}

static struct file *make(uint32_t type, uint32_t flags)
{
	uint32_t protocol = 0;
	struct socket *s;
	struct file *f;

	if (unix_init())
		abort();
	s = socket_create(socket_family_find(AF_UNIX)->choose(type, &protocol), AF_UNIX, type, 0);
	if (IS_ERR(s))
		return ERR_PTR(PTR_ERR(s));
	f = socket_file(s, flags);
	if (IS_ERR(f))
		socket_drop(s);
	return f;
}

struct file *fake_socket(uint32_t type)
{
	struct file *f = make(type, 0);

	if (IS_ERR(f))
		abort();
	return f;
}

int fake_pair_open(uint32_t type, uint32_t flags, struct file *ends[2])
{
	ends[0] = make(type, flags);
	if (IS_ERR(ends[0]))
		return PTR_ERR(ends[0]);
	ends[1] = make(type, flags);
	if (IS_ERR(ends[1])) {
		file_put(ends[0]);
		return PTR_ERR(ends[1]);
	}
	return socket_family_find(AF_UNIX)->pair(socket_of(ends[0]), socket_of(ends[1]));
}

void fake_pair(uint32_t type, struct file *ends[2])
{
	if (fake_pair_open(type, 0, ends))
		abort();
}

struct sock_addr fake_name(const char *name)
{
	struct sock_addr addr = { .len = (uint32_t)(3 + strlen(name)) };

	addr.family = AF_UNIX;
	memcpy(&addr.un.path[1], name, strlen(name));
	return addr;
}

ssize_t fake_send(struct file *f, const void *buf, size_t len, uint32_t flags)
{
	struct socket_msg m = { .flags = flags };
	struct uio u;

	uio_kernel(&u, (void *)(uintptr_t)buf, len);
	m.uio = &u;
	return socket_send(socket_of(f), &m);
}

ssize_t fake_recv(struct file *f, void *buf, size_t len, uint32_t flags)
{
	struct socket_msg m = { .flags = flags };
	struct uio u;

	uio_kernel(&u, buf, len);
	m.uio = &u;
	return socket_of(f)->ops->recvmsg(socket_of(f), &m);
}
