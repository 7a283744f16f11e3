/* SPDX-License-Identifier: MIT */
/*
 * The interpreter of a program whose "/" is not that of the vNode, or whose mounts are not the
 * first ones.
 *
 * The home of a new space looks PT_INTERP up at the root's storage node. For a process that has
 * called chroot(), or behind a mount, that name means another file: its own walk finds it here, and
 * the home gets the path that the file has at its storage node.
 *
 * Failure:	a file that is not a sound ELF file is the home's to refuse: it has no interpreter
 *		here.
 * Limits:	an interpreter of a file system without a storage node (tmpfs) is -ENOEXEC.
 */
#include <abi/elf.h>
#include <fs/access.h>
#include <fs/stat.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>
#include <processor/vfs/uio.h>

#include "process_private.h"

#define PHDRS_MAX 65536u /* bytes, as on Linux */

/* Exactly @len bytes at @pos: -ENOEXEC if there are fewer. */
static int read_all(struct file *f, uint64_t pos, void *buf, size_t len)
{
	struct uio uio;
	ssize_t got;

	uio_kernel(&uio, buf, len);
	got = file_read(f, &uio, &pos);
	if (got < 0)
		return (int)got;
	return (size_t)got == len ? 0 : -ENOEXEC;
}

/* The text of PT_INTERP at @ph; the caller's to kfree(). ERR_PTR. */
static char *read_text(struct file *f, const struct linux_elf64_phdr *ph)
{
	const uint64_t len = le64_to_cpu(ph->filesz);
	char *text;
	int err;

	if (len < 2 || len > FS_PATH_MAX)
		return ERR_PTR(-ENOEXEC);
	text = kmalloc(len);
	if (!text)
		return ERR_PTR(-ENOMEM);
	err = read_all(f, le64_to_cpu(ph->offset), text, len);
	if (!err && strnlen(text, len) != len - 1)
		err = -ENOEXEC;
	if (!err)
		return text;
	kfree(text);
	return ERR_PTR(err);
}

/* NULL: @f has none. */
static char *text_of(struct file *f)
{
	struct linux_elf64_hdr hdr;
	struct linux_elf64_phdr *phdrs;
	char *text = NULL;
	size_t len, nr;
	int err = read_all(f, 0, &hdr, sizeof(hdr));

	if (err)
		return ERR_PTR(err);
	nr = le16_to_cpu(hdr.phnum);
	len = nr * sizeof(*phdrs);
	if (memcmp(hdr.ident, "\177ELF", 4) || hdr.ident[EI_CLASS] != ELFCLASS64 ||
	    le16_to_cpu(hdr.phentsize) != sizeof(*phdrs) || !nr || len > PHDRS_MAX)
		return ERR_PTR(-ENOEXEC);
	phdrs = kmalloc(len);
	if (!phdrs)
		return ERR_PTR(-ENOMEM);
	err = read_all(f, le64_to_cpu(hdr.phoff), phdrs, len);
	for (size_t i = 0; !err && !text && i < nr; i++) {
		if (le32_to_cpu(phdrs[i].type) == PT_INTERP)
			text = read_text(f, &phdrs[i]); /* the first one counts */
	}
	kfree(phdrs);
	return err ? ERR_PTR(err) : text;
}

/* Where the file that @text names lies. */
static int resolve(struct fs_state *fs, const struct fs_cred *cred, const char *text,
		   struct exec_interp *in)
{
	struct walk_result res;
	int err = fs_state_walk(fs, cred, text, 0, FS_MAY_EXEC, &res);

	if (err)
		return err;
	if ((res.at.attr.mode & S_IFMT) != S_IFREG)
		err = -EACCES;
	else if (!res.at.attr.file.node)
		err = -ENOEXEC;
	if (!err) {
		in->path = path_at_storage(&res.at);
		in->storage = res.at.attr.file.node;
		if (IS_ERR(in->path)) {
			err = PTR_ERR(in->path);
			in->path = NULL;
		}
	}
	walk_result_put(&res);
	return err;
}

int exec_interp_find(const struct path *at, struct fs_state *fs, const struct fs_cred *cred,
		     struct exec_interp *in)
{
	struct file *f = path_open_exec(at);
	char *text;
	int err;

	*in = (struct exec_interp){ 0 };
	if (IS_ERR(f))
		return PTR_ERR(f);
	text = text_of(f);
	file_put(f);
	if (IS_ERR(text))
		return PTR_ERR(text) == -ENOEXEC ? 0 : (int)PTR_ERR(text);
	if (!text)
		return 0;
	err = resolve(fs, cred, text, in);
	kfree(text);
	return err;
}
