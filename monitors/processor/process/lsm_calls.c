/* SPDX-License-Identifier: MIT */
/*
 * lsm_list_modules and its kin: capabilities are the one security module here, as on a Linux that
 * has no other. It has no attributes.
 */
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/syscall/syscall.h>

#define LSM_ID_CAPABILITY 100u
#define LSM_FLAG_SINGLE   1u

struct lsm_ctx {
	uint64_t id, flags, len, ctx_len;
};
static_assert(sizeof(struct lsm_ctx) == 32, "struct lsm_ctx is ABI");

/* lsm_get_self_attr(attribute, contexts, size, flags) */
long sys_lsm_get_self_attr(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[3];
	struct lsm_ctx ctx;
	uint32_t size;

	if (!(uint32_t)args->a[0] || !args->a[2])
		return -EINVAL;
	if (get_user_u32(&size, (const void __user *)args->a[2]))
		return -EFAULT;
	if (flags && (flags != LSM_FLAG_SINGLE || !args->a[1]))
		return -EINVAL;
	if (flags && copy_from_user(&ctx, (const void __user *)args->a[1], sizeof(ctx)))
		return -EFAULT;
	if (flags && !ctx.id)
		return -EINVAL;
	if (put_user_u32(0, (void __user *)args->a[2]))
		return -EFAULT;
	return -EOPNOTSUPP;
}

/* lsm_set_self_attr(attribute, context, size, flags) */
long sys_lsm_set_self_attr(const struct syscall_args *args)
{
	const uint32_t size = (uint32_t)args->a[2];
	struct lsm_ctx *ctx;
	long ret = 0;

	if ((uint32_t)args->a[3] || size < sizeof(*ctx))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ctx = kmalloc(size);
	if (!ctx)
		return -ENOMEM;
	if (copy_from_user(ctx, (const void __user *)args->a[1], size))
		ret = -EFAULT;
	else if (size < ctx->len || ctx->len < sizeof(*ctx) ||
		 ctx->ctx_len > ctx->len - sizeof(*ctx))
		ret = -EINVAL;
	kfree(ctx);
	return ret ? ret : -EOPNOTSUPP;
}

/* lsm_list_modules(numbers, size, flags) */
long sys_lsm_list_modules(const struct syscall_args *args)
{
	uint32_t size;

	if ((uint32_t)args->a[2])
		return -EINVAL;
	if (get_user_u32(&size, (const void __user *)args->a[1]) ||
	    put_user_u32(sizeof(uint64_t), (void __user *)args->a[1]))
		return -EFAULT;
	if (size < sizeof(uint64_t))
		return -E2BIG;
	return put_user_u64(LSM_ID_CAPABILITY, (void __user *)args->a[0]) ? -EFAULT : 1;
}
