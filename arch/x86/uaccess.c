/* SPDX-License-Identifier: MIT */
/*
 * User memory access: range checks and the SMAP window around user_copy.S.
 *
 * Flow:	a fault inside runs the ordinary user fault path (traps.c), which may
 *		sleep; on failure the instruction's fix-up ends the copy early.
 * Ordering:	the window is one flag in RFLAGS: it is saved with the thread on a
 *		switch and closed by trap entry.
 */
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/errno.h>

size_t uaccess_copy(void *dst, const void *src, size_t len);
size_t uaccess_clear(void *dst, size_t len);
long uaccess_strncpy(char *dst, const char *src, size_t size);
int uaccess_get32(uint32_t *val, const void *src);
int uaccess_get64(uint64_t *val, const void *src);
int uaccess_put32(uint32_t val, void *dst);
int uaccess_put64(uint64_t val, void *dst);
int uaccess_cmpxchg32(uint32_t *old, void *dst, uint32_t expect, uint32_t val);

static inline void user_open(void)
{
	if (cpu_features.smap)
		__asm__ volatile("stac" ::: "cc", "memory");
}

static inline void user_close(void)
{
	if (cpu_features.smap)
		__asm__ volatile("clac" ::: "cc", "memory");
}

void user_faults_off(void)
{
	thread_current()->faults_off++;
	barrier();
}

void user_faults_on(void)
{
	struct thread *t = thread_current();

	barrier();
	ASSERT(t->faults_off > 0);
	t->faults_off--;
}

size_t copy_from_user_partial(void *dst, const void __user *src, size_t len)
{
	size_t left;

	if (!user_range_ok((uint64_t)src, len))
		return len;
	user_open();
	left = uaccess_copy(dst, (const void __force *)src, len);
	user_close();
	return left;
}

size_t copy_to_user_partial(void __user *dst, const void *src, size_t len)
{
	size_t left;

	if (!user_range_ok((uint64_t)dst, len))
		return len;
	user_open();
	left = uaccess_copy((void __force *)dst, src, len);
	user_close();
	return left;
}

int copy_from_user(void *dst, const void __user *src, size_t len)
{
	return copy_from_user_partial(dst, src, len) ? -EFAULT : 0;
}

int copy_to_user(void __user *dst, const void *src, size_t len)
{
	return copy_to_user_partial(dst, src, len) ? -EFAULT : 0;
}

size_t clear_user_partial(void __user *dst, size_t len)
{
	size_t left;

	if (!user_range_ok((uint64_t)dst, len))
		return len;
	user_open();
	left = uaccess_clear((void __force *)dst, len);
	user_close();
	return left;
}

ssize_t strncpy_from_user(char *dst, const char __user *src, size_t size)
{
	const uint64_t at = (uint64_t)src;
	size_t max;
	long len;

	if (at >= USER_TOP)
		return -EFAULT;
	max = MIN(size, USER_TOP - at);
	user_open();
	len = uaccess_strncpy(dst, (const char __force *)src, max);
	user_close();
	if (len < 0)
		return -EFAULT;
	if ((size_t)len < max)
		return len;
	return max < size ? -EFAULT : -ENAMETOOLONG;
}

int get_user_u32(uint32_t *val, const void __user *src)
{
	int err;

	if (!user_range_ok((uint64_t)src, sizeof(*val)))
		return -EFAULT;
	user_open();
	err = uaccess_get32(val, (const void __force *)src);
	user_close();
	return err ? -EFAULT : 0;
}

int get_user_u64(uint64_t *val, const void __user *src)
{
	int err;

	if (!user_range_ok((uint64_t)src, sizeof(*val)))
		return -EFAULT;
	user_open();
	err = uaccess_get64(val, (const void __force *)src);
	user_close();
	return err ? -EFAULT : 0;
}

int put_user_u32(uint32_t val, void __user *dst)
{
	int err;

	if (!user_range_ok((uint64_t)dst, sizeof(val)))
		return -EFAULT;
	user_open();
	err = uaccess_put32(val, (void __force *)dst);
	user_close();
	return err ? -EFAULT : 0;
}

int put_user_u64(uint64_t val, void __user *dst)
{
	int err;

	if (!user_range_ok((uint64_t)dst, sizeof(val)))
		return -EFAULT;
	user_open();
	err = uaccess_put64(val, (void __force *)dst);
	user_close();
	return err ? -EFAULT : 0;
}

int cmpxchg_user_u32(uint32_t *old, void __user *dst, uint32_t expect, uint32_t val)
{
	int err;

	if (!user_range_ok((uint64_t)dst, sizeof(val)) || ((uint64_t)dst & 3))
		return -EFAULT;
	user_open();
	err = uaccess_cmpxchg32(old, (void __force *)dst, expect, val);
	user_close();
	return err ? -EFAULT : 0;
}
