# SPDX-License-Identifier: MIT
# The line discipline, by itself and against the host's own pseudo terminals.
prog-y     += tty
tty-folders :=
tty-objs   := monitors/processor/tty/ldisc.o monitors/processor/tty/echo.o \
	test/host/ldisc_pty_test.o
