/* SPDX-License-Identifier: MIT */
/*
 * The vDSO as bytes in the kernel's image; copied to frames of its own at start.
 */
	.section .rodata
	.balign 16
	.globl vdso_image, vdso_image_end
vdso_image:
	.incbin VDSO_IMAGE
vdso_image_end:

	.section .note.GNU-stack, "", @progbits
