# SPDX-License-Identifier: MIT
prog-y += fair
fair-objs := kernel/fair.o kernel/fair_test.o kernel/fixed.o kernel/fixed_test.o \
	kernel/turns.o kernel/turns_test.o
