/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/maps, smaps and statm: mappings, and how much of them is in memory here.
 *
 * Flow:	the mappings come from the processor's copy of the vma list. Rss counts the pages
 *		that the page table maps.
 * Limits:	a mapping that only the home knows (after a call that failed half way, or one that
 *		changed more than 64 mappings) is missing until a thread touches it. Rss leaves out
 *		pages that are only in the ExCache or at a memory node.
 */
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
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

#define PATH_COLUMN 73 /* where Linux begins the name */

static const char *region_name(const struct aspace *as, const struct vma *v)
{
	if (v->flags & VMA_STACK && v->start < as->stack_top && v->end >= as->stack_top)
		return "[stack]";
	if (!v->file && v->start < as->brk && v->end > as->brk_start)
		return "[heap]";
	return NULL;
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
		text_escaped(t, name, "");
	}
	text_putc(t, '\n');
}

static void put_vma(struct text *t, const struct aspace *as, const struct vma *v)
{
	const char *name = region_name(as, v);
	uint64_t offset = 0, ino = 0;
	uint32_t dev = 0;

	if (v->file) {
		offset = v->pgoff << PAGE_SHIFT;
		ino = v->file->file.ino;
		dev = v->file->dev;
		if (v->file->path)
			name = v->file->path;
		else if (v->file->kind == OBJECT_SHARED)
			/* as Linux names MAP_SHARED | MAP_ANONYMOUS */
			name = "/dev/zero (deleted)";
	}
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
	while (!t->err && next_vma(as, &addr, &v) == 0) {
		put_vma(t, as, &v);
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
