# SPDX-License-Identifier: MIT
# The managers' policies.
prog-y        += managers
managers-objs := $(addprefix managers/,gpm.o gpm_test.o placement.o placement_test.o)
