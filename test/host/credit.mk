# SPDX-License-Identifier: MIT
# Frame credits: the account of a processor and that of an owner over a network that loses messages.
prog-y      += credit
credit-objs := monitors/memory/commit.o monitors/memory/extent.o monitors/memory/pool.o \
	monitors/processor/excache/credit.o test/host/credit_test.o
