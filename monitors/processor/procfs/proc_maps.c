/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/maps, smaps, numa_maps and statm: mappings, and how much of them is in memory here.
 *
 * Flow:	the mappings come from the processor's copy of the vma list. Rss counts the pages
 *		that the page table maps.
 *		A mapping of which parts have names (PR_SET_VMA), or memory policies in numa_maps,
 *		is several lines.
 * Limits:	a mapping that only the home knows (after a call that failed half way, or one that
 *		changed more than 64 mappings) is missing until a thread touches it. Rss leaves out
 *		pages that are only in the ExCache or at a memory node.
 */
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <processor/mm/advice.h>
#include <processor/mm/anon_name.h>
#include <processor/mm/mempolicy.h>
#include <processor/mm/vma.h>
#include <processor/vdso/vdso.h>

#include "proc_private.h"

/*
 * The mappings, lowest first: a copy of the one at or behind *@addr, which moves behind it.
 * -ENOENT: no more.
 */
static int next_vma(struct aspace *as, vaddr_t *addr, struct vma *out)
{
	struct rb_node *n;
	struct vma *best = NULL;

	spin_lock(&as->lock);
	for (n = as->vmas.node; n;) {
		struct vma *v = rb_entry(n, struct vma, node);

		if (v->end > *addr) {
			best = v;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	if (best) {
		ASSERT(best->start < best->end && best->end > *addr);
		*out = *best;
		if (out->file)
			object_get(out->file);
		*addr = best->end;
	}
	spin_unlock(&as->lock);
	return best ? 0 : -ENOENT;
}

/* The same, but of a mapping that @addr lies in only the part from there on. */
static int next_piece(struct aspace *as, vaddr_t *addr, struct vma *out)
{
	const vaddr_t from = *addr;
	const int err = next_vma(as, addr, out);

	if (!err && out->start < from)
		vma_trim_front(out, from);
	return err;
}

#define COUNT_BATCH 4096u /* pages looked at under one hold of the lock */

/* Pages that are mapped in the page table, and of those the ones that were changed. */
struct rss {
	uint64_t pages, dirty, accessed;
};

struct count {
	struct rss *rss;
	unsigned int nr;
	vaddr_t last;
};

static int count_page(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	struct count *c = arg;

	ASSERT(c->nr < COUNT_BATCH);
	c->rss->pages++;
	c->rss->dirty += e->dirty;
	c->rss->accessed += e->accessed;
	c->last = vaddr;
	return ++c->nr == COUNT_BATCH;
}

static void count_mapped(struct aspace *as, vaddr_t start, vaddr_t end, struct rss *out)
{
	struct count c = { .rss = out, .nr = COUNT_BATCH };

	*out = (struct rss){ 0 };
	while (c.nr == COUNT_BATCH) {
		c.nr = 0;
		spin_lock(&as->lock);
		(void)pgtable_walk(as->pt, start, end, count_page, &c);
		spin_unlock(&as->lock);
		start = c.last + PAGE_SIZE;
	}
}

void proc_sizes(struct aspace *as, struct proc_sizes *out)
{
	struct rss c;
	vaddr_t addr = 0;
	struct vma v;

	*out = (struct proc_sizes){ 0 };
	while (next_vma(as, &addr, &v) == 0) {
		const uint64_t pages = (v.end - v.start) >> PAGE_SHIFT;

		count_mapped(as, v.start, v.end, &c);
		out->total += pages;
		out->rss += c.pages;
		if (v.file)
			out->shared += c.pages;
		if (v.flags & (VMA_STACK | VMA_GROWS))
			out->stack += pages;
		else if (v.prot & VMA_PROT_EXEC)
			out->lib += pages;
		else if ((v.prot & VMA_PROT_WRITE) && !(v.flags & VMA_SHARED))
			out->data += pages;
		vma_release(&v);
	}
	out->text = (as->code_end >> PAGE_SHIFT) - (as->code_start >> PAGE_SHIFT) +
		    (as->code_end != as->code_start);
	out->lib -= MIN(out->lib, out->text);
}

/* --- lines --------------------------------------------------------------------------- */

#define PATH_COLUMN  73 /* where Linux begins the name */
#define NAME_MAX_LEN (ANON_NAME_MAX + sizeof("[anon_shmem:]"))

static const char *region_name(const struct aspace *as, const struct vma *v)
{
	if (v->flags & VMA_STACK && v->start < as->stack_top && v->end >= as->stack_top)
		return "[stack]";
	if (!v->file && v->start < as->brk && v->end > as->brk_start)
		return "[heap]";
	return NULL;
}

/* A name is the end of its line, so it may have spaces. */
static void put_name(struct text *t, const char *name)
{
	for (; *name; name++) {
		if (*name == '\n')
			text_puts(t, "\\012");
		else
			text_putc(t, *name);
	}
}

static void put_range(struct text *t, vaddr_t start, vaddr_t end, uint32_t prot, bool shared,
		      uint64_t offset, uint32_t dev, uint64_t ino, const char *name)
{
	const size_t line = t->len;

	text_printf(t, "%08llx-%08llx %c%c%c%c %08llx %02x:%02x %llu ", (unsigned long long)start,
		    (unsigned long long)end, (prot & VMA_PROT_READ) ? 'r' : '-',
		    (prot & VMA_PROT_WRITE) ? 'w' : '-', (prot & VMA_PROT_EXEC) ? 'x' : '-',
		    shared ? 's' : 'p', (unsigned long long)offset, dev >> 8, dev & 0xff,
		    (unsigned long long)ino);
	if (name) {
		text_pad(t, line, PATH_COLUMN);
		put_name(t, name);
	}
	text_putc(t, '\n');
}

/* The path of what @v shows, or NULL. */
static const char *file_name(const struct vma *v)
{
	if (v->file->path)
		return v->file->path;
	/* as Linux names MAP_SHARED | MAP_ANONYMOUS */
	return v->file->kind == OBJECT_SHARED ? "/dev/zero (deleted)" : NULL;
}

static bool is_nameless(const struct vma *v)
{
	return !v->file || (v->file->kind == OBJECT_SHARED && !v->file->path);
}

/* @v up to where another name begins; @given is the program's name for it, if there is one. */
static void cut_at_names(struct vma *v, struct aspace *as, char given[NAME_MAX_LEN])
{
	char name[ANON_NAME_MAX] = "";

	if (is_nameless(v))
		v->end = MIN(v->end, anon_name_at(as, v->start, name));
	ASSERT(v->start < v->end);
	given[0] = '\0';
	if (name[0])
		snprintf(given, NAME_MAX_LEN, v->file ? "[anon_shmem:%s]" : "[anon:%s]", name);
}

static void put_vma(struct text *t, const struct aspace *as, const struct vma *v, const char *given)
{
	const char *name = region_name(as, v);
	uint64_t offset = 0, ino = 0;
	uint32_t dev = 0;

	if (v->file) {
		offset = v->pgoff << PAGE_SHIFT;
		ino = v->file->file.ino;
		dev = v->file->dev;
		name = file_name(v) ? file_name(v) : name;
	}
	if (given[0] && (v->file || !name))
		name = given;
	put_range(t, v->start, v->end, v->prot, v->flags & VMA_SHARED, offset, dev, ino, name);
}

static void put_usage(struct text *t, struct aspace *as, vaddr_t start, vaddr_t end, bool file)
{
	struct rss c;
	unsigned long long kib;

	count_mapped(as, start, end, &c);
	kib = c.pages * (PAGE_SIZE >> 10);
	text_printf(t,
		    "Size:           %8llu kB\n"
		    "KernelPageSize:        4 kB\n"
		    "MMUPageSize:           4 kB\n"
		    "Rss:            %8llu kB\nPss:            %8llu kB\n",
		    (unsigned long long)((end - start) >> 10), kib, kib);
	text_printf(t,
		    "Shared_Clean:   %8llu kB\nShared_Dirty:          0 kB\n"
		    "Private_Clean:  %8llu kB\nPrivate_Dirty:  %8llu kB\n",
		    file ? kib : 0, file ? 0 : (unsigned long long)(c.pages - c.dirty) * 4,
		    file ? 0 : (unsigned long long)c.dirty * 4);
	text_printf(
		t,
		"Referenced:     %8llu kB\nAnonymous:      %8llu kB\nLazyFree:              0 kB\n"
		"AnonHugePages:         0 kB\n"
		"ShmemPmdMapped:        0 kB\n"
		"FilePmdMapped:         0 kB\n"
		"Shared_Hugetlb:        0 kB\n"
		"Private_Hugetlb:       0 kB\n"
		"Swap:                  0 kB\n"
		"SwapPss:               0 kB\nLocked:                0 kB\nTHPeligible:    0\n",
		(unsigned long long)c.accessed * 4, file ? 0 : kib);
}

static void put_flags(struct text *t, uint32_t prot, uint32_t flags)
{
	text_printf(t, "VmFlags:%s%s%s%s%s%s%s\n", (prot & VMA_PROT_READ) ? " rd" : "",
		    (prot & VMA_PROT_WRITE) ? " wr" : "", (prot & VMA_PROT_EXEC) ? " ex" : "",
		    (flags & VMA_SHARED) ? " sh" : "", " mr mw me",
		    (flags & (VMA_STACK | VMA_GROWS)) ? " gd" : "",
		    (flags & VMA_NORESERVE) ? " nr" : "");
}

static int all_lines(struct text *t, const struct pseudo_subject *s, bool usage)
{
	struct vdso_part parts[2];
	char given[NAME_MAX_LEN];
	struct aspace *as;
	vaddr_t addr = 0;
	struct vma v;
	const int err = proc_aspace(s, &as);

	if (err || !as)
		return err;
	/* The first part of a file names it, so before any line. */
	while (next_vma(as, &addr, &v) == 0) {
		if (v.file && v.file->kind == OBJECT_FILE && !v.file->path)
			proc_name_object(s, as, &v);
		vma_release(&v);
	}
	addr = 0;
	while (!t->err && next_piece(as, &addr, &v) == 0) {
		cut_at_names(&v, as, given);
		addr = v.end;
		put_vma(t, as, &v, given);
		if (usage) {
			put_usage(t, as, v.start, v.end, v.file);
			put_flags(t, v.prot, v.flags);
		}
		vma_release(&v);
	}
	for (int i = 0; i < 2 && vdso_parts(as, parts); i++) {
		const uint32_t prot = VMA_PROT_READ | (parts[i].exec ? VMA_PROT_EXEC : 0);

		put_range(t, parts[i].start, parts[i].end, prot, false, 0, 0, 0, parts[i].name);
		if (usage) {
			put_usage(t, as, parts[i].start, parts[i].end, true);
			put_flags(t, prot, 0);
		}
	}
	aspace_put(as);
	return 0;
}

SHOW(show_pid_maps)
{
	return all_lines(t, s, false);
}

SHOW(show_pid_smaps)
{
	return all_lines(t, s, true);
}

/* --- numa_maps ------------------------------------------------------------------------- */

/* @v up to where another policy begins; the policy of its first page, or 0. */
static mempolicy_t cut_at_policies(struct vma *v, struct aspace *as)
{
	struct advice_part part = { 0 };
	bool found;

	if (!READ_ONCE(as->marks[MARK_POLICY].nr) || mutex_lock_killable(&as->map_lock))
		return 0;
	found = advice_find(as, MARK_POLICY, v->start, &part);
	mutex_unlock(&as->map_lock);
	v->end = MIN(v->end, part.end);
	ASSERT(v->start < v->end);
	return found ? part.value : 0;
}

/* Every page is on node 0. */
static void put_pages(struct text *t, struct aspace *as, const struct vma *v)
{
	struct rss c;

	count_mapped(as, v->start, v->end, &c);
	ASSERT(c.dirty <= c.pages && c.accessed <= c.pages);
	if (!c.pages)
		return;
	if (!v->file)
		text_printf(t, " anon=%llu", (unsigned long long)c.pages);
	if (c.dirty)
		text_printf(t, " dirty=%llu", (unsigned long long)c.dirty);
	if (v->file && c.pages != c.dirty)
		text_printf(t, " mapped=%llu", (unsigned long long)c.pages);
	if (c.accessed < c.pages)
		text_printf(t, " active=%llu", (unsigned long long)c.accessed);
	text_printf(t, " N0=%llu kernelpagesize_kB=%llu", (unsigned long long)c.pages,
		    (unsigned long long)PAGE_SIZE >> 10);
}

static void put_numa_line(struct text *t, struct aspace *as, const struct vma *v,
			  mempolicy_t policy)
{
	const char *region = region_name(as, v);
	char words[MEMPOLICY_TEXT];

	mempolicy_print(policy, words);
	text_printf(t, "%08llx %s", (unsigned long long)v->start, words);
	if (v->file) {
		text_puts(t, " file=");
		text_escaped(t, file_name(v) ? file_name(v) : "", "\t= ");
	} else if (region) {
		text_puts(t, region[1] == 'h' ? " heap" : " stack");
	}
	put_pages(t, as, v);
	text_putc(t, '\n');
}

/* Of the thread, or of the process's first one, which may have ended: 0. */
static int task_policy(const struct pseudo_subject *s, mempolicy_t *policy)
{
	struct proc_ref ref;
	const int err = proc_get(s, &ref);

	*policy = 0;
	if (err)
		return err;
	if (!ref.task)
		ref.task = task_find(ref.process->pid);
	if (ref.task)
		*policy = READ_ONCE(ref.task->mempolicy);
	proc_put(&ref);
	return 0;
}

SHOW(show_pid_numa_maps)
{
	mempolicy_t own = 0;
	struct aspace *as;
	vaddr_t addr = 0;
	struct vma v;
	int err = proc_aspace(s, &as);

	if (err || !as)
		return err;
	err = task_policy(s, &own);
	while (!err && !t->err && next_piece(as, &addr, &v) == 0) {
		const mempolicy_t policy = cut_at_policies(&v, as);

		addr = v.end;
		if (v.file && v.file->kind == OBJECT_FILE && !v.file->path)
			proc_name_object(s, as, &v);
		put_numa_line(t, as, &v, policy ? policy : own);
		vma_release(&v);
	}
	aspace_put(as);
	return err;
}

SHOW(show_pid_smaps_rollup)
{
	struct proc_sizes sizes;
	struct aspace *as;
	const int err = proc_aspace(s, &as);

	if (err || !as)
		return err;
	proc_sizes(as, &sizes);
	put_range(t, 0, SPACE_TOP, 0, false, 0, 0, 0, "[rollup]");
	put_usage(t, as, 0, SPACE_TOP, false);
	aspace_put(as);
	return 0;
}

SHOW(show_pid_statm)
{
	struct proc_sizes z = { 0 };
	struct aspace *as;
	const int err = proc_aspace(s, &as);

	if (err)
		return err;
	if (as) {
		proc_sizes(as, &z);
		aspace_put(as);
	}
	text_printf(t, "%llu %llu %llu %llu 0 %llu 0\n", (unsigned long long)z.total,
		    (unsigned long long)z.rss, (unsigned long long)z.shared,
		    (unsigned long long)z.text, (unsigned long long)(z.data + z.stack));
	return 0;
}
