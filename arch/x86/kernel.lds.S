/* SPDX-License-Identifier: MIT */
/*
 * Kernel image layout.  Linked at KERNEL_BASE + KERNEL_PHYS, loaded at KERNEL_PHYS.
 *
 * Rule:	text, read-only data and data never share a page: W^X needs it, and an
 *		emulated CPU that finds code and data on one page becomes very slow.
 *		setup.c maps [text_start, text_end) ro+x, [rodata_start, rodata_end) ro,
 *		the rest rw, nx.
 */
#include <arch/layout.h>

OUTPUT_FORMAT(elf64-x86-64)
OUTPUT_ARCH(i386:x86-64)
ENTRY(boot_entry_mb2) /* GRUB wants it inside a segment; PVH loaders use the note */

PHDRS
{
	text PT_LOAD FLAGS(5);
	rodata PT_LOAD FLAGS(4);
	data PT_LOAD FLAGS(6);
	note PT_NOTE FLAGS(4);
	stack PT_GNU_STACK FLAGS(6);
}

SECTIONS
{
	. = KERNEL_BASE + KERNEL_PHYS;
	image_start = .;

	.text : AT(ADDR(.text) - KERNEL_BASE) {
		text_start = .;
		KEEP(*(.multiboot2)) /* within the first 32 KiB of the file */
		KEEP(*(.head.text))
		*(.text .text.*)
	} :text
	. = ALIGN(4096);
	text_end = .;

	.rodata : AT(ADDR(.rodata) - KERNEL_BASE) {
		rodata_start = .;
		*(.rodata .rodata.*)
		. = ALIGN(8);
		extable_start = .;
		KEEP(*(.extable))
		extable_end = .;
		bootparams_start = .;
		KEEP(*(.bootparam))
		bootparams_end = .;
		counters_start = .;
		KEEP(*(.counters))
		counters_end = .;
		gauges_start = .;
		KEEP(*(.gauges))
		gauges_end = .;
		histograms_start = .;
		KEEP(*(.histograms))
		histograms_end = .;
		initcalls_early = .;
		KEEP(*(.initcall.early))
		initcalls_core = .;
		KEEP(*(.initcall.core))
		initcalls_driver = .;
		KEEP(*(.initcall.driver))
		initcalls_fs = .;
		KEEP(*(.initcall.fs))
		initcalls_cluster = .;
		KEEP(*(.initcall.cluster))
		initcalls_monitor = .;
		KEEP(*(.initcall.monitor))
		initcalls_program = .;
		KEEP(*(.initcall.program))
		initcalls_end = .;
		__ktest_start = .;
		KEEP(*(.ktest))
		__ktest_end = .;
		/* Tables whose section name is a C identifier: named as the linker would. */
		. = ALIGN(8);
		__start_pci_drivers = .;
		KEEP(*(pci_drivers))
		__stop_pci_drivers = .;
	} :rodata
	.note.gnu.build-id : AT(ADDR(.note.gnu.build-id) - KERNEL_BASE) {
		build_id_note_start = .;
		KEEP(*(.note.gnu.build-id))
		build_id_note_end = .;
	} :rodata :note
	.note.pvh : AT(ADDR(.note.pvh) - KERNEL_BASE) {
		KEEP(*(.note.pvh))
	} :rodata :note
	.symbols : AT(ADDR(.symbols) - KERNEL_BASE) {
		KEEP(*(.symbols))
	} :rodata
	. = ALIGN(4096);
	rodata_end = .;

	.data : AT(ADDR(.data) - KERNEL_BASE) {
		data_start = .;
		*(.data .data.*)
	} :data
	.bss : AT(ADDR(.bss) - KERNEL_BASE) {
		. = ALIGN(4096);
		*(.bss.page_aligned)
		. = ALIGN(64);
		percpu_start = .;
		KEEP(*(.bss.percpu))
		. = ALIGN(64);
		percpu_end = .;
		*(.bss .bss.* COMMON)
		. = ALIGN(4096);
	} :data
	image_end = .;

	/DISCARD/ : {
		*(.eh_frame .eh_frame_hdr)
		*(.comment)
		*(.note.gnu.property)
		*(.note.GNU-stack)
	}
}
