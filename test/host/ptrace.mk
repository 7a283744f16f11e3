# SPDX-License-Identifier: MIT
# Registers as ptrace() and core dumps show them.
prog-y      += ptrace
ptrace-objs := monitors/processor/process/user_regs.o monitors/processor/process/user_regs_test.o
