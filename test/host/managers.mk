# SPDX-License-Identifier: MIT
# The managers' policies.
prog-y        += managers
managers-objs := $(addprefix managers/,gmm.o gmm_test.o gpm.o gpm_test.o gsm.o gsm_test.o) \
	$(addprefix managers/,members.o members_test.o names.o names_test.o) \
	monitors/cluster/view.o monitors/proto/cluster.o
