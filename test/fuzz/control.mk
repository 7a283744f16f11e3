# SPDX-License-Identifier: MIT
control_fuzz-objs := monitors/proto/control.o
