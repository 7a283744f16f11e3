/* SPDX-License-Identifier: MIT */
/*
 * User FPU, SSE and AVX state.  The kernel itself never uses these registers.
 *
 * The XSAVE area has the standard (non-compacted) format, which is also what a
 * signal frame shows to user code.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct fpu_state;

/* Fresh state (x87 and SSE defaults); NULL when out of memory. */
struct fpu_state *fpu_alloc(void);
void fpu_free(struct fpu_state *fpu);
/* Back to the defaults, for exec. */
void fpu_reset(struct fpu_state *fpu);
/* Copy for fork or clone; saves the current registers first when @from is live. */
void fpu_copy(struct fpu_state *to, struct fpu_state *from);

/* Size of the XSAVE image, and the components (XCR0) in it. */
size_t fpu_size(void);
uint64_t fpu_xfeatures(void);
/* The bytes of the image; the live registers are saved into it first. */
const void *fpu_image(struct fpu_state *fpu);
/* Replace the image (sigreturn); refuses bits that would fault on restore: -EINVAL. */
int fpu_set_image(struct fpu_state *fpu, const void *image, size_t len) __must_check;

/*
 * The live registers of the current thread are saved and given up: until it enters user mode again
 * its image is all there is, for other threads to read and replace.
 */
void fpu_park(struct fpu_state *fpu);

/* For the context switch and the return to user mode (interrupts off). */
void fpu_switch_out(struct fpu_state *fpu);
void fpu_switch_in(const struct fpu_state *fpu);
void fpu_restore_for_user(struct fpu_state *fpu);
void fpu_init_cpu(void);
