# SPDX-License-Identifier: MIT
# Names of core files.
prog-y    += core
core-objs := monitors/processor/process/core_name.o monitors/processor/process/core_name_test.o
