/* SPDX-License-Identifier: MIT */
/*
 * Core files: who writes one, when the others stand still, and the file from its beginning.
 *
 * Flow:	see core.h. The file is the ELF header, the program headers, the notes, and from
 *		the next page on the memory of each mapping. Its size is set at the end, as the last
 *		pages may be holes.
 * Ordering:	a parked task's registers are in its FPU image before it is counted; none goes on
 *		before core_over().
 * Limits:	a task that is in a system call which no signal ends (it waits for a node, or for
 *		its child of vfork) is waited for, as is one that its tracer has stopped; SIGKILL
 *		ends that.
 */
#define PR_FMT "core: "

#include "core.h"

#include <abi/elf.h>
#include <abi/signal.h>
#include <arch/fpu.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/ns/ns.h>
#include <processor/vfs/file.h>
#include <processor/vfs/path.h>

#include "core_private.h"
#include "process_private.h"

COUNTER(core_files, "core.files", "core files written, also those cut short");
COUNTER(core_short, "core.cut_short", "of these, cut short by a limit, an error or a signal");
COUNTER(core_refused, "core.refused", "core files that could not be made");

/* --- the others stand still --------------------------------------------------------------- */

void core_park(struct task *t)
{
	struct process *p = t->process;

	fpu_park(thread_current()->user.fpu);
	spin_lock(&p->sig_lock);
	if (p->core_task) {
		p->nr_parked++;
		wake_all(&p->exec_event);
	}
	spin_unlock(&p->sig_lock);
	/* Not killable: the one that writes looks at our registers until it is done. */
	wait_event(&p->core_done, !READ_ONCE(p->core_task));
}

static bool all_stand(const struct process *p)
{
	return READ_ONCE(p->nr_parked) + 1 == READ_ONCE(p->nr_tasks);
}

/* False: the process ends already, or another task of it has begun a core file. */
static bool begin(struct process *p, struct task *t)
{
	struct task *other;
	bool begun;

	spin_lock(&p->sig_lock);
	begun = !task_ending_locked(t) && !p->core_task;
	if (begun) {
		p->core_task = t;
		list_for_each_entry(other, &p->tasks, link) {
			if (other != t)
				thread_notify(other->thread, THREAD_F_SIGNAL);
		}
	}
	spin_unlock(&p->sig_lock);
	if (begun)
		wake_all(&p->sig.go_on); /* those that are stopped stand still elsewhere */
	return begun;
}

void core_over(void)
{
	struct task *t = task_current();
	struct process *p = t->process;
	bool own;

	spin_lock(&p->sig_lock);
	own = p->core_task == t;
	ASSERT(!own || p->exiting);
	if (own) {
		p->core_task = NULL;
		p->nr_parked = 0;
	}
	spin_unlock(&p->sig_lock);
	if (own)
		wake_all(&p->core_done);
}

/* --- the file ------------------------------------------------------------------------------ */

/* -ENOENT: an empty one. */
static int make_name(const struct linux_siginfo *info, char *out)
{
	struct process *p = process_current();
	struct uts_names names;
	struct core_name_facts f = {
		.hostname = names.node,
		.pid = process_vpid(p),
		.tid = task_vtid(task_current()),
		.uid = task_current()->cred->uid,
		.gid = task_current()->cred->gid,
		.dumpable = 1,
		.signo = info->signo,
		.limit = process_rlimit(RLIMIT_CORE),
		.time_s = (int64_t)(time_real_ns() / 1000000000u),
	};
	char pattern[CORE_PATTERN_MAX];
	int err;

	uts_names(&names);
	core_pattern_get(pattern);
	mutex_lock(&p->lock);
	f.comm = p->comm;
	f.exe = p->exe_path ? p->exe_path : p->comm;
	err = core_name(pattern, READ_ONCE(core_uses_pid), &f, out, FS_PATH_MAX);
	mutex_unlock(&p->lock);
	return !err && !out[0] ? -ENOENT : err;
}

/* As Linux: a new file in place of what has the name, so that no link leads to another one. */
static struct file *make_file(const struct linux_siginfo *info)
{
	char *name = kmalloc(FS_PATH_MAX);
	struct file *f;
	int err = name ? make_name(info, name) : -ENOMEM;

	if (!err) {
		err = path_unlink(name);
		err = err == -ENOENT ? 0 : err;
	}
	f = err ? ERR_PTR(err)
		: path_open(name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_LARGEFILE, 0600);
	kfree(name);
	return f;
}

/* --- headers ------------------------------------------------------------------------------- */

static uint32_t elf_flags(uint32_t prot)
{
	return (prot & VMA_PROT_READ ? PF_R : 0) | (prot & VMA_PROT_WRITE ? PF_W : 0) |
	       (prot & VMA_PROT_EXEC ? PF_X : 0);
}

static void fill_header(struct linux_elf64_hdr *h, size_t phnum, uint64_t shoff)
{
	static const uint8_t ident[] = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT };

	*h = (struct linux_elf64_hdr){
		.type = cpu_to_le16(ET_CORE),
		.machine = cpu_to_le16(EM_X86_64),
		.version = cpu_to_le32(EV_CURRENT),
		.phoff = cpu_to_le64(sizeof(*h)),
		.ehsize = cpu_to_le16(sizeof(*h)),
		.phentsize = cpu_to_le16(sizeof(struct linux_elf64_phdr)),
		.phnum = cpu_to_le16((uint16_t)MIN(phnum, (size_t)PN_XNUM)),
	};
	memcpy(h->ident, ident, sizeof(ident));
	if (phnum < PN_XNUM)
		return;
	/* More than its field holds: the first section header, at the end, says how many. */
	h->shoff = cpu_to_le64(shoff);
	h->shentsize = cpu_to_le16(sizeof(struct linux_elf64_shdr));
	h->shnum = cpu_to_le16(1);
}

struct whole { /* a file on its way */
	struct core_map map;
	struct core_buf notes;
	uint64_t notes_at, memory_at, end; /* offsets */
};

static void lay_out(struct whole *w)
{
	const size_t phnum = w->map.nr + 1;

	w->notes_at = sizeof(struct linux_elf64_hdr) + phnum * sizeof(struct linux_elf64_phdr);
	w->memory_at = ALIGN_UP(w->notes_at + w->notes.len, PAGE_SIZE);
	w->end = w->memory_at;
	for (size_t i = 0; i < w->map.nr; i++)
		w->end += w->map.segments[i].in_file;
}

static int write_headers(struct core_out *o, const struct whole *w)
{
	struct linux_elf64_hdr h;
	struct linux_elf64_phdr ph = {
		.type = cpu_to_le32(PT_NOTE),
		.offset = cpu_to_le64(w->notes_at),
		.filesz = cpu_to_le64(w->notes.len),
		.align = cpu_to_le64(4),
	};
	uint64_t at = w->memory_at;
	int err;

	fill_header(&h, w->map.nr + 1, w->end);
	err = core_write(o, &h, sizeof(h));
	if (!err)
		err = core_write(o, &ph, sizeof(ph));
	for (size_t i = 0; !err && i < w->map.nr; i++) {
		const struct core_segment *seg = &w->map.segments[i];

		ph = (struct linux_elf64_phdr){
			.type = cpu_to_le32(PT_LOAD),
			.flags = cpu_to_le32(elf_flags(seg->vma.prot)),
			.offset = cpu_to_le64(at),
			.vaddr = cpu_to_le64(seg->vma.start),
			.filesz = cpu_to_le64(seg->in_file),
			.memsz = cpu_to_le64(seg->vma.end - seg->vma.start),
			.align = cpu_to_le64(PAGE_SIZE),
		};
		at += seg->in_file;
		err = core_write(o, &ph, sizeof(ph));
	}
	return err;
}

/* The last pages may be holes, which no write has made. */
static int write_end(struct core_out *o, const struct whole *w)
{
	const struct linux_elf64_shdr sh = { .size = cpu_to_le64(1),
					     .info = cpu_to_le32((uint32_t)w->map.nr + 1) };
	const struct attr_change ch = { .valid = ATTR_SIZE, .size = w->end };

	ASSERT(o->pos == w->end);
	if (w->map.nr + 1 >= PN_XNUM)
		return core_write(o, &sh, sizeof(sh));
	return o->f->inode->ops->setattr(o->f->inode, &ch);
}

static int write_all(struct core_out *o, struct process *p, const struct linux_siginfo *info,
		     struct whole *w)
{
	struct page_bits pages;
	uint8_t *buf = kmalloc(CORE_BATCH);
	int err = -ENOMEM;

	page_bits_init(&pages);
	if (buf)
		err = core_map_make(&w->map, p->as, READ_ONCE(p->core_filter), &pages);
	if (!err) {
		core_notes(&w->notes, p, info, &w->map);
		err = w->notes.err;
	}
	if (!err) {
		lay_out(w);
		err = write_headers(o, w);
	}
	if (!err)
		err = core_write(o, w->notes.data, w->notes.len);
	o->pos = w->memory_at;
	for (size_t i = 0; !err && i < w->map.nr; i++)
		err = core_write_segment(o, p->as, &w->map.segments[i], &pages, buf);
	if (!err)
		err = write_end(o, w);
	core_map_free(&w->map);
	kfree(w->notes.data);
	kfree(buf);
	page_bits_destroy(&pages);
	return err;
}

/* False: there is no file. */
static bool write_file(struct process *p, const struct linux_siginfo *info, uint64_t limit)
{
	struct file *f = make_file(info);
	struct core_out o = { .f = f, .limit = limit };
	struct whole w = { 0 };
	int err;

	if (IS_ERR(f)) {
		counter_inc(&core_refused);
		pr_info("pid %u: no core file: error %d\n", p->pid, (int)PTR_ERR(f));
		return false;
	}
	err = write_all(&o, p, info, &w);
	file_put(f);
	counter_inc(&core_files);
	if (err) {
		counter_inc(&core_short);
		pr_info("pid %u: core file cut short after %llu bytes: error %d\n", p->pid,
			(unsigned long long)o.written, err);
	}
	return true;
}

bool core_dump(const struct linux_siginfo *info)
{
	const uint64_t limit = process_rlimit(RLIMIT_CORE);
	struct task *t = task_current();
	struct process *p = t->process;

	if (limit < PAGE_SIZE || READ_ONCE(p->undumpable) || READ_ONCE(p->as->failed))
		return false;
	if (!begin(p, t)) {
		/* The other one ends the process, with its own signal. */
		if (READ_ONCE(p->core_task))
			core_park(t);
		return false;
	}
	if (wait_event_killable(&p->exec_event, all_stand(p)))
		return false;
	return write_file(p, info, limit);
}
