/* SPDX-License-Identifier: MIT */
/*
 * The kernel shim's API for host tests, beyond the kernel's own.
 */
#pragma once

#include <setjmp.h>

#include <lib/types.h>

/* --- memory */

/* Let @n more allocations (slab and lib_alloc) succeed, then fail all; -1: never fail. */
void shim_fail_alloc_after(long n);
/* The same for frames. */
void shim_fail_frame_after(long n);
/* Slab and lib allocations that were made and not freed. */
size_t shim_allocs_live(void);
/*
 * Replace the frame arena by one of @bytes (default 256 MiB, memory only as touched). No frame
 * may be in use.
 */
void shim_frames_init(uint64_t bytes);

/* --- time */

/* Let the clock jump forward: deadlines in between expire now. */
void shim_time_advance_ns(uint64_t delta_ns);
/* Stop the clock: it then moves by shim_time_advance_ns() only. */
void shim_time_freeze(bool on);

/* --- threads */

struct thread;
/* Is @t asleep in a killable wait, and nothing has woken it? It must not have been joined. */
bool shim_thread_waits_killable(struct thread *t);

/* --- log */

/* Has a line with @text been logged since the start or shim_log_clear()? */
bool shim_log_contains(const char *text);
void shim_log_clear(void);

/* --- boot parameters, init calls, interrupts */

/* Set the parameter as the command line would; -ENOENT, or -EINVAL and -ERANGE for the value. */
int shim_bootparam_set(const char *name, const char *value);
/* Run the init calls of all levels that are linked in, early ones first. First error or 0. */
int shim_initcalls_run(void);
/* Call the handler that irq_alloc() gave this vector to; false when there is none. */
bool shim_irq_raise(unsigned int vector);
/* The same of an interrupt line; false: it is masked. */
bool shim_line_raise(unsigned int line);

/* Set the answer of log_node_id() (boot parameter node=); 0 to begin with. */
void shim_node_id_set(uint32_t id);

/* --- panics */

extern _Thread_local jmp_buf *shim_panic_jmp;
extern _Thread_local char shim_panic_text[256];

/*
 * True when @statement panicked (or a BUG_ON or ASSERT in it fired) in this thread; the text is in
 * shim_panic_text. Its allocations and locks stay.
 */
#define SHIM_PANICS(statement)                        \
	({                                            \
		jmp_buf panic_jmp_;                   \
		volatile bool panicked_ = true;       \
		if (setjmp(panic_jmp_) == 0) {        \
			shim_panic_jmp = &panic_jmp_; \
			statement;                    \
			panicked_ = false;            \
		}                                     \
		shim_panic_jmp = NULL;                \
		panicked_;                            \
	})
