/* SPDX-License-Identifier: MIT */
/*
 * Names of mapped files that nobody has opened by name on this node: the program itself and its
 * interpreter, which the home memory node has mapped.
 *
 * The interpreter is named by the program's headers in its memory, which may say anything by now:
 * the name is only used for a file that is the mapped one.
 */
#include <abi/elf.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/vfs/file.h>

#include "proc_private.h"

#define PHDRS_MAX 128u

/* The value of @type in the auxiliary vector; 0: it has none. */
static uint64_t aux_value(struct aspace *as, uint64_t type)
{
	uint64_t pair[2];

	for (vaddr_t at = as->auxv_start; at + sizeof(pair) <= as->auxv_end; at += sizeof(pair)) {
		if (aspace_read_memory(as, at, pair, sizeof(pair)) < sizeof(pair))
			break;
		if (pair[0] == type)
			return pair[1];
	}
	return 0;
}

/* The interpreter's name as the program has it, into FS_PATH_MAX bytes. */
static int interp_text(struct aspace *as, char *buf)
{
	const vaddr_t phdrs = aux_value(as, AT_PHDR);
	const uint64_t nr = MIN(aux_value(as, AT_PHNUM), (uint64_t)PHDRS_MAX);
	vaddr_t bias = 0;

	if (!phdrs || aux_value(as, AT_PHENT) != sizeof(struct linux_elf64_phdr))
		return -ENOENT;
	for (uint64_t i = 0; i < nr; i++) {
		struct linux_elf64_phdr ph;
		uint64_t vaddr;
		uint32_t type;
		size_t len;

		if (aspace_read_memory(as, phdrs + i * sizeof(ph), &ph, sizeof(ph)) < sizeof(ph))
			return -ENOENT;
		type = le32_to_cpu(ph.type);
		vaddr = le64_to_cpu(ph.vaddr);
		if (type == PT_PHDR)
			bias = phdrs - vaddr; /* it stands in front of PT_INTERP */
		if (type != PT_INTERP)
			continue;
		len = (size_t)MIN(le64_to_cpu(ph.filesz), (uint64_t)FS_PATH_MAX);
		if (aspace_read_memory(as, bias + vaddr, buf, len) < len || !memchr(buf, '\0', len))
			return -ENOENT;
		return buf[0] == '/' ? 0 : -ENOENT;
	}
	return -ENOENT;
}

static void name_interp(struct aspace *as, struct object *obj)
{
	char *text = kmalloc(FS_PATH_MAX), *real = kmalloc(FS_PATH_MAX);
	struct file_attr attr;

	if (text && real && interp_text(as, text) == 0 &&
	    path_lookup(text, 0, 0, &attr, real) == 0 && file_id_equal(&attr.file, &obj->file))
		object_set_path(obj, real);
	kfree(text);
	kfree(real);
}

void proc_name_object(const struct pseudo_subject *s, struct aspace *as, const struct vma *v)
{
	const vaddr_t base = aux_value(as, AT_BASE);
	struct proc_ref ref;

	if (v->start <= as->code_start && as->code_start < v->end) {
		if (proc_get(s, &ref))
			return;
		mutex_lock(&ref.process->lock);
		if (ref.process->exe_path)
			object_set_path(v->file, ref.process->exe_path);
		mutex_unlock(&ref.process->lock);
		proc_put(&ref);
	} else if (base && v->start <= base && base < v->end) {
		name_interp(as, v->file);
	}
}
