# SPDX-License-Identifier: MIT
prog-y += lib
lib-folders := lib
lib-objs := test/host/lib_oom_test.o

prog-y += shim
shim-objs := test/host/shim_test.o
