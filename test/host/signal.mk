# SPDX-License-Identifier: MIT
# Queues of pending signals.
prog-y      += signal
signal-objs := monitors/processor/account/account.o \
	monitors/processor/signal/queue.o monitors/processor/signal/queue_test.o \
	test/host/signal_fake.o
