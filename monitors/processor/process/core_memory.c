/* SPDX-License-Identifier: MIT */
/*
 * Core files: which memory they show, and writing it.
 *
 * Flow:	core_map_make() takes a copy of the list of mappings, with how much of each goes
 *		into the file, as core(5) says. A page that the process never touched is no page
 *		of any object: the file has a hole for it, and nothing is made or fetched for it.
 *		A mapping of which a part is MADV_DONTDUMP is two or more segments.
 * Context:	the task that ends; no lock held. No thread of the process runs, but a process that
 *		shares its memory may change it: what cannot be had any more is a hole.
 */
#include "core_private.h"

#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/excache/frames.h>
#include <processor/mm/advice.h>
#include <processor/mm/anon.h>
#include <processor/mm/vma.h>
#include <processor/vdso/vdso.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "core.h"

/* --- writing -------------------------------------------------------------------------- */

static bool is_killed(void)
{
	return __atomic_load_n(&thread_current()->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL;
}

int core_write(struct core_out *o, const void *data, size_t len)
{
	while (len) {
		struct uio uio;
		ssize_t n;

		if (is_killed())
			return -EINTR;
		if (len > o->limit - MIN(o->written, o->limit))
			return -EFBIG;
		/* Not written to: it is what is copied from. */
		uio_kernel(&uio, (void *)(uintptr_t)data, len);
		n = file_write(o->f, &uio, &o->pos);
		uio_done(&uio);
		if (n <= 0)
			return n ? (int)n : -EIO;
		ASSERT((size_t)n <= len);
		o->written += (uint64_t)n;
		data = (const uint8_t *)data + n;
		len -= (size_t)n;
	}
	return 0;
}

/* --- which memory --------------------------------------------------------------------- */

static bool begins_with_elf(struct aspace *as, const struct vma *v)
{
	static const uint8_t magic[4] = { 0x7f, 'E', 'L', 'F' };
	uint8_t at[4];

	return aspace_read_forced(as, v->start, at, sizeof(at)) == sizeof(at) &&
	       !memcmp(at, magic, sizeof(at));
}

static bool has_private(const struct vma *v, const struct page_bits *pages)
{
	const uint64_t end = v->end >> PAGE_SHIFT;

	return page_bits_next(pages, v->start >> PAGE_SHIFT, end) < end;
}

/* Memory of mmap(MAP_SHARED | MAP_ANONYMOUS) or shmget(): no file that lives longer. */
static bool is_nameless(const struct object *obj)
{
	return !obj->path || !strncmp(obj->path, "/SYSV", 5);
}

static void choose_shared(struct core_segment *seg, uint32_t filter)
{
	const struct object *obj = seg->vma.file;
	const bool anon = obj->kind == OBJECT_SHARED && is_nameless(obj);

	if (filter & (anon ? CORE_FILTER_ANON_SHARED : CORE_FILTER_MAPPED_SHARED))
		seg->in_file = seg->vma.end - seg->vma.start;
	seg->pages = obj->kind == OBJECT_SHARED;
}

static void choose(struct core_segment *seg, struct aspace *as, uint32_t filter,
		   const struct page_bits *private_pages)
{
	const struct vma *v = &seg->vma;
	const uint64_t all = v->end - v->start;

	if (v->file && (v->flags & VMA_SHARED)) {
		choose_shared(seg, filter);
	} else if ((filter & CORE_FILTER_ANON_PRIVATE) && has_private(v, private_pages)) {
		seg->in_file = all;
		seg->pages = !v->file;
	} else if (v->file && (filter & CORE_FILTER_MAPPED_PRIVATE)) {
		seg->in_file = all;
	} else if (v->file && (filter & CORE_FILTER_ELF_HEADERS) && !v->pgoff &&
		   (v->prot & VMA_PROT_READ) && begins_with_elf(as, v)) {
		seg->in_file = PAGE_SIZE;
	}
}

static struct core_segment *map_add(struct core_map *map)
{
	struct core_segment *more;
	const size_t size = map->size ? 2 * map->size : 64;

	if (map->nr == map->size) {
		more = krealloc(map->segments, size * sizeof(*more));
		if (!more)
			return NULL;
		map->segments = more;
		map->size = size;
	}
	more = &map->segments[map->nr];
	*more = (struct core_segment){ 0 };
	return more;
}

/* The code of the vDSO, in which a backtrace may begin. */
static int add_vdso(struct core_map *map, struct aspace *as)
{
	struct vdso_part parts[2];
	struct core_segment *seg;

	if (!vdso_parts(as, parts))
		return 0;
	seg = map_add(map);
	if (!seg)
		return -ENOMEM;
	seg->vma.start = parts[1].start;
	seg->vma.end = parts[1].end;
	seg->vma.prot = VMA_PROT_READ | VMA_PROT_EXEC;
	seg->in_file = parts[1].end - parts[1].start;
	map->nr++;
	return 0;
}

/*
 * @seg, whose mapping reaches behind @at, is its part from there on that is all to be shown, or all
 * not to be: *shown. -EINTR
 */
static int cut_at_marks(struct core_segment *seg, struct aspace *as, vaddr_t at, bool *shown)
{
	struct advice_part part;
	const int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	if (seg->vma.start < at)
		vma_trim_front(&seg->vma, at);
	*shown = !advice_find(as, MARK_DONT_DUMP, seg->vma.start, &part);
	seg->vma.end = MIN(seg->vma.end, part.end);
	mutex_unlock(&as->map_lock);
	return 0;
}

int core_map_make(struct core_map *map, struct aspace *as, uint32_t filter,
		  struct page_bits *private_pages)
{
	struct core_segment *seg;
	vaddr_t at = 0;
	bool shown = true;
	int err = anon_pages(as, private_pages);

	while (!err) {
		seg = map_add(map);
		if (!seg)
			return -ENOMEM;
		if (!aspace_next_vma(as, at, UINT64_MAX, &seg->vma))
			break;
		map->nr++; /* has a reference to drop from here on */
		err = cut_at_marks(seg, as, at, &shown);
		at = seg->vma.end;
		if (!err && shown)
			choose(seg, as, filter, private_pages);
		if (is_killed())
			err = -EINTR;
	}
	return err ? err : add_vdso(map, as);
}

void core_map_free(struct core_map *map)
{
	for (size_t i = 0; i < map->nr; i++)
		vma_release(&map->segments[i].vma);
	kfree(map->segments);
	*map = (struct core_map){ 0 };
}

/* --- the bytes ------------------------------------------------------------------------ */

/* [@at, @end), which is not larger than @buf; o->pos is its place. */
static int write_run(struct core_out *o, struct aspace *as, vaddr_t at, vaddr_t end, uint8_t *buf)
{
	while (at < end) {
		const size_t got = aspace_read_forced(as, at, buf, end - at) & ~(PAGE_SIZE - 1);
		const int err = got ? core_write(o, buf, got) : 0;

		if (err)
			return err;
		at += got;
		if (at < end) { /* this page cannot be had */
			at += PAGE_SIZE;
			o->pos += PAGE_SIZE;
		}
		if (is_killed())
			return -EINTR;
	}
	return 0;
}

/* The first page at or behind @at that is to be written, and where the ones behind it end. */
static vaddr_t next_run(const struct core_segment *seg, const struct page_bits *pages, vaddr_t at,
			vaddr_t *run_end)
{
	const vaddr_t end = seg->vma.start + seg->in_file;
	const uint64_t first = seg->vma.file ? seg->vma.pgoff : seg->vma.start >> PAGE_SHIFT;
	uint64_t page = first + ((at - seg->vma.start) >> PAGE_SHIFT);
	const uint64_t last = first + (seg->in_file >> PAGE_SHIFT);

	if (pages) {
		page = page_bits_next(pages, page, last);
		at = seg->vma.start + ((page - first) << PAGE_SHIFT);
	}
	*run_end = at;
	while (*run_end < end && *run_end - at < CORE_BATCH &&
	       (!pages || page_bits_test(pages, page++)))
		*run_end += PAGE_SIZE;
	return at;
}

int core_write_segment(struct core_out *o, struct aspace *as, const struct core_segment *seg,
		       const struct page_bits *private_pages, uint8_t *buf)
{
	const uint64_t begin = o->pos;
	const vaddr_t end = seg->vma.start + seg->in_file;
	const struct page_bits *pages = seg->pages ? private_pages : NULL;
	struct page_bits shared;
	vaddr_t at = seg->vma.start, run_end;
	int err = 0;

	page_bits_init(&shared);
	if (seg->pages && seg->vma.file) {
		err = object_pages(seg->vma.file, &shared);
		pages = &shared;
	}
	while (!err && at < end) {
		at = next_run(seg, pages, at, &run_end);
		o->pos = begin + (at - seg->vma.start);
		err = write_run(o, as, at, run_end, buf);
		at = run_end;
	}
	page_bits_destroy(&shared);
	o->pos = begin + seg->in_file;
	return err;
}
