/* SPDX-License-Identifier: MIT */
/*
 * Core files: notes, which say what is not memory. The layouts are those of <linux/elfcore.h>.
 *
 * Context:	the task that ends; the others stand still, with their registers on their kernel
 *		stacks and in their FPU images.
 */
#include <abi/elf.h>
#include <abi/signal.h>
#include <arch/fpu.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "core_private.h"
#include "process_private.h"
#include "user_regs.h"

#define FLAGS_FORKNOEXEC 0x40u /* PF_FORKNOEXEC, the one bit of Linux's flags that we know */

struct core_timeval {
	int64_t sec, usec;
};

struct core_prstatus { /* struct elf_prstatus */
	int32_t signo, code, err;
	int16_t cursig, pad;
	uint64_t sigpend, sighold;
	uint32_t pid, ppid, pgrp, sid;
	struct core_timeval utime, stime, cutime, cstime;
	struct linux_user_regs regs;
	int32_t fpvalid, pad2;
};
static_assert(sizeof(struct core_prstatus) == 336, "struct elf_prstatus is ABI");
static_assert(offsetof(struct core_prstatus, regs) == 112, "struct elf_prstatus is ABI");

struct core_prpsinfo { /* struct elf_prpsinfo */
	char state, sname, zombie, nice;
	uint32_t pad;
	uint64_t flag;
	uint32_t uid, gid, pid, ppid, pgrp, sid;
	char fname[16], psargs[80];
};
static_assert(sizeof(struct core_prpsinfo) == 136, "struct elf_prpsinfo is ABI");

/* --- the buffer ------------------------------------------------------------------------ */

/* Room for @len more bytes, zeroed; NULL: there is none. */
static void *buf_add(struct core_buf *b, size_t len)
{
	size_t size = b->size ? b->size : PAGE_SIZE;
	uint8_t *data;

	while (size - b->len < len)
		size *= 2;
	if (b->err)
		return NULL;
	if (size != b->size) {
		data = krealloc(b->data, size);
		if (!data) {
			b->err = -ENOMEM;
			return NULL;
		}
		b->data = data;
		b->size = size;
	}
	data = b->data + b->len;
	memset(data, 0, len);
	b->len += len;
	return data;
}

/* A note with room for @len bytes of description, or NULL. */
static void *note_add(struct core_buf *b, const char *name, uint32_t type, size_t len)
{
	const size_t name_len = strlen(name) + 1;
	struct linux_elf64_nhdr *h;
	uint8_t *at = buf_add(b, sizeof(*h) + ALIGN_UP(name_len, 4) + ALIGN_UP(len, 4));

	if (!at)
		return NULL;
	h = (struct linux_elf64_nhdr *)(void *)at;
	h->namesz = cpu_to_le32((uint32_t)name_len);
	h->descsz = cpu_to_le32((uint32_t)len);
	h->type = cpu_to_le32(type);
	memcpy(at + sizeof(*h), name, name_len);
	return at + sizeof(*h) + ALIGN_UP(name_len, 4);
}

/* --- a task ---------------------------------------------------------------------------- */

static struct core_timeval timeval(uint64_t ns)
{
	return (struct core_timeval){ (int64_t)(ns / 1000000000u),
				      (int64_t)(ns % 1000000000u / 1000u) };
}

static void add_status(struct core_buf *b, struct task *t, const struct linux_siginfo *info)
{
	struct process *p = t->process;
	const struct user_bases bases = { t->thread->user.fs_base, t->thread->user.gs_base };
	struct core_prstatus *s = note_add(b, "CORE", NT_PRSTATUS, sizeof(*s));
	struct usage u;

	if (!s)
		return;
	if (t->tid == p->pid)
		usage_of(p, &u);
	else
		usage_of_task(t, &u);
	s->signo = info->signo;
	s->code = info->code;
	s->err = info->err;
	s->cursig = (int16_t)info->signo;
	spin_lock(&p->sig_lock);
	s->sigpend = t->sig.pending.set;
	s->sighold = t->sig.mask;
	spin_unlock(&p->sig_lock);
	s->pid = (int32_t)pid_vnr(t->tid);
	s->ppid = (int32_t)pid_vnr(process_ppid(p));
	s->pgrp = (int32_t)pid_vnr(READ_ONCE(p->pgid));
	s->sid = (int32_t)pid_vnr(READ_ONCE(p->sid));
	s->utime = timeval(u.utime_ns);
	s->stime = timeval(u.stime_ns);
	s->cutime = timeval(READ_ONCE(p->usage_children.utime_ns));
	s->cstime = timeval(READ_ONCE(p->usage_children.stime_ns));
	user_regs_get(user_regs_of(t->thread), &bases, &s->regs);
	s->fpvalid = 1;
}

static void add_fpu(struct core_buf *b, struct task *t)
{
	struct fpu_state *fpu = t->thread->user.fpu;
	const void *image = fpu_image(fpu);
	uint8_t *regs = kmalloc(fpu_size());
	uint8_t *out = note_add(b, "CORE", NT_PRFPREG, USER_FPREGS_SIZE);

	if (!regs) {
		b->err = -ENOMEM;
		return;
	}
	user_xstate_get(regs, image, fpu_size(), fpu_xfeatures());
	if (out)
		memcpy(out, regs, USER_FPREGS_SIZE);
	if (fpu_size() > USER_FPREGS_SIZE) {
		out = note_add(b, "LINUX", NT_X86_XSTATE, fpu_size());
		if (out)
			memcpy(out, regs, fpu_size());
	}
	kfree(regs);
}

/* --- the process ----------------------------------------------------------------------- */

static void add_psinfo(struct core_buf *b, struct process *p)
{
	struct core_prpsinfo *s = note_add(b, "CORE", NT_PRPSINFO, sizeof(*s));
	const struct cred *c = task_current()->cred;
	struct aspace *as = p->as;
	size_t len;

	if (!s)
		return;
	s->sname = 'R';
	s->nice = (char)READ_ONCE(task_current()->nice);
	s->flag = p->execed ? 0 : FLAGS_FORKNOEXEC;
	s->uid = c->uid;
	s->gid = c->gid;
	s->pid = (int32_t)pid_vnr(p->pid);
	s->ppid = (int32_t)pid_vnr(process_ppid(p));
	s->pgrp = (int32_t)pid_vnr(READ_ONCE(p->pgid));
	s->sid = (int32_t)pid_vnr(READ_ONCE(p->sid));
	memcpy(s->fname, p->comm, sizeof(s->fname));
	len = MIN((size_t)(as->arg_end - as->arg_start), sizeof(s->psargs) - 1);
	len = aspace_read_memory(as, as->arg_start, s->psargs, len);
	for (size_t i = 0; i < len; i++) {
		if (!s->psargs[i])
			s->psargs[i] = ' ';
	}
}

static void add_siginfo(struct core_buf *b, const struct linux_siginfo *info)
{
	struct siginfo_user *s = note_add(b, "CORE", NT_SIGINFO, sizeof(*s));

	if (s)
		s->info = *info;
}

static void add_auxv(struct core_buf *b, struct aspace *as)
{
	const size_t len = as->auxv_end - as->auxv_start;
	void *out = note_add(b, "CORE", NT_AUXV, len);

	if (out && aspace_read_memory(as, as->auxv_start, out, len) != len)
		memset(out, 0, len);
}

/* --- files ------------------------------------------------------------------------------ */

/* The path of the program's own file is the process's to know. */
static const char *name_of(struct process *p, const struct vma *v) __must_hold(&p->lock)
{
	const struct aspace *as = p->as;

	assert_mutex_held(&p->lock);
	if (v->file->path)
		return v->file->path;
	if (v->file->kind == OBJECT_FILE && v->start <= as->code_start && as->code_start < v->end)
		return p->exe_path;
	return NULL;
}

/* NT_FILE: two numbers, three for each mapping of a file, then the names. */
#define FILES_MAX (4u << 20) /* bytes of NT_FILE */

static void add_files(struct core_buf *b, struct process *p, const struct core_map *map)
{
	uint64_t *numbers;
	size_t names = 0, nr = 0;
	const char *name;
	char *at;

	mutex_lock(&p->lock);
	for (size_t i = 0; i < map->nr; i++) {
		const struct vma *v = &map->segments[i].vma;

		name = v->file ? name_of(p, v) : NULL;
		nr += name != NULL;
		names += name ? strlen(name) + 1 : 0;
	}
	/* As Linux: a space of very many files has no such note. */
	if ((2 + 3 * nr) * sizeof(*numbers) + names > FILES_MAX)
		nr = 0;
	numbers = nr ? note_add(b, "CORE", NT_FILE, (2 + 3 * nr) * sizeof(*numbers) + names) : NULL;
	if (numbers) {
		at = (char *)(numbers + 2 + 3 * nr);
		*numbers++ = nr;
		*numbers++ = PAGE_SIZE;
	}
	for (size_t i = 0; numbers && nr && i < map->nr; i++) {
		const struct vma *v = &map->segments[i].vma;
		size_t len;

		name = v->file ? name_of(p, v) : NULL;
		len = name ? strlen(name) + 1 : 0;
		/* A path that was found meanwhile is left out. */
		if (!name || len > names)
			continue;
		nr--;
		names -= len;
		*numbers++ = v->start;
		*numbers++ = v->end;
		*numbers++ = v->pgoff;
		memcpy(at, name, len);
		at += len;
	}
	mutex_unlock(&p->lock);
}

void core_notes(struct core_buf *b, struct process *p, const struct linux_siginfo *info,
		const struct core_map *map)
{
	struct task *own = task_current(), *t;

	lock_not_needed(&p->sig_lock, "the other tasks stand still: the list stays");
	add_status(b, own, info);
	add_psinfo(b, p);
	add_siginfo(b, info);
	add_auxv(b, p->as);
	add_files(b, p, map);
	add_fpu(b, own);
	list_for_each_entry(t, &p->tasks, link) {
		if (t == own)
			continue;
		add_status(b, t, info);
		add_fpu(b, t);
	}
}
