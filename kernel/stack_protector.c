/* SPDX-License-Identifier: MIT */
/*
 * Stack canary: one random word for the whole kernel, chosen at boot before
 * the first thread is made.  Only kernel_main(), which never returns, is on the
 * stack at that moment.
 */
#include <kernel/boot.h>

#include <kernel/panic.h>
#include <kernel/random.h>
#include <kernel/symbols.h>

extern uintptr_t __stack_chk_guard;
void __noreturn __stack_chk_fail(void);

uintptr_t __stack_chk_guard = 0x5bd1e995c6a4a793ull;

void __noreturn __stack_chk_fail(void)
{
	char name[96];

	symbol_format(name, sizeof(name), (uint64_t)__builtin_return_address(0));
	panic("stack canary changed in %s", name);
}

__attribute__((no_stack_protector)) void stack_protector_init(void)
{
	__stack_chk_guard = random_u64() & ~0xffull; /* a zero byte stops string overruns */
}
