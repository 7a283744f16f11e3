# SPDX-License-Identifier: MIT
# The control service over a console of bytes in memory: ctl_test.c is the launcher.
prog-y      += ctl
ctl-folders := monitors/ctl
ctl-objs    := monitors/proto/control.o drivers/console/chardev.o test/host/ctl_test.o
