# SPDX-License-Identifier: MIT
# Numbers in PID namespaces.
prog-y      += pid_ns
pid_ns-objs := monitors/processor/account/account.o monitors/processor/process/pid_ns.o \
	monitors/processor/process/pid_ns_test.o test/host/pid_ns_fake.o
