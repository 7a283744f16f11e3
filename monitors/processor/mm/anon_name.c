/* SPDX-License-Identifier: MIT */
/*
 * Names of anonymous memory, for people who read /proc/<pid>/maps.
 *
 * A name is a mark of pages (advice.h) whose value is a counted string: ranges of one call, their
 * parts and their copies in children share it.
 *
 * Locking:	aspace.map_lock for the marks; the count of a name is atomic, for children have it
 *		too.
 * See:		prctl(2), PR_SET_VMA
 */
#include "anon_name.h"

#include <arch/uaccess.h>
#include <lib/atomic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/account/account.h>

#include "advice.h"
#include "aspace.h"
#include "range.h"

struct anon_name {
	refcount_t refs;
	char text[ANON_NAME_MAX];
};

static struct anon_name *name_of(uint64_t value)
{
	return (struct anon_name *)(uintptr_t)value;
}

static void name_get(uint64_t value)
{
	refcount_inc(&name_of(value)->refs);
}

static void name_put(uint64_t value)
{
	if (refcount_dec_and_test(&name_of(value)->refs))
		kmem_free(name_of(value));
}

static bool name_same(uint64_t a, uint64_t b)
{
	return !strcmp(name_of(a)->text, name_of(b)->text);
}

static const struct range_values name_values = {
	.get = name_get,
	.put = name_put,
	.same = name_same,
};

static bool is_valid(const char *text)
{
	for (; *text; text++) {
		if (*text <= 0x1f || *text >= 0x7f || strchr("\\`$[]", *text))
			return false;
	}
	return true;
}

/* *out: the name at @uname, with one reference. -EFAULT, -EINVAL, -ENOMEM. */
static int name_fetch(struct aspace *as, uint64_t uname, struct anon_name **out)
{
	struct anon_name *n = kmem_alloc(as->kmem, sizeof(*n));
	ssize_t len;

	if (!n)
		return -ENOMEM;
	refcount_set(&n->refs, 1);
	len = strncpy_from_user(n->text, (const char __user *)uname, sizeof(n->text));
	if (len >= 0 && len < (ssize_t)sizeof(n->text) && is_valid(n->text)) {
		*out = n;
		return 0;
	}
	kmem_free(n);
	return len == -EFAULT ? -EFAULT : -EINVAL;
}

static int name_part(struct aspace *as, const struct vma *v, vaddr_t start, vaddr_t end, void *arg)
{
	struct anon_name *n = arg;

	if (v->file && (v->file->kind != OBJECT_SHARED || v->file->path))
		return -EBADF;
	return n ? advice_set(as, MARK_NAME, start, end, (uint64_t)(uintptr_t)n)
		 : advice_clear(as, MARK_NAME, start, end);
}

/* @n NULL: the names go. */
static int set_name(struct aspace *as, vaddr_t start, uint64_t size, struct anon_name *n)
{
	int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	as->marks[MARK_NAME].values = &name_values;
	err = advice_each(as, start, start + size, name_part, n);
	mutex_unlock(&as->map_lock);
	return err;
}

long anon_name_set(struct aspace *as, uint64_t start, uint64_t len, uint64_t uname)
{
	const uint64_t size = page_up(len);
	struct anon_name *n = NULL;
	int err = uname ? name_fetch(as, uname, &n) : 0;

	if (err)
		return err;
	if ((start & (PAGE_SIZE - 1)) || (len && !size) || start + size < start)
		err = -EINVAL;
	else if (size && (start >= SPACE_TOP || size > SPACE_TOP - start))
		err = -ENOMEM;
	else if (size)
		err = set_name(as, start, size, n);
	if (n)
		name_put((uint64_t)(uintptr_t)n);
	return err;
}

vaddr_t anon_name_at(struct aspace *as, vaddr_t at, char name[ANON_NAME_MAX])
{
	struct advice_part part = { .end = UINT64_MAX };

	name[0] = '\0';
	if (!READ_ONCE(as->marks[MARK_NAME].nr) || mutex_lock_killable(&as->map_lock))
		return part.end;
	if (advice_find(as, MARK_NAME, at, &part))
		strlcpy(name, name_of(part.value)->text, ANON_NAME_MAX);
	mutex_unlock(&as->map_lock);
	return part.end;
}
