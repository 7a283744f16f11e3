# SPDX-License-Identifier: MIT
# Membership views and placement: the pure parts of the managers.
prog-y       += managers
managers-objs := managers/params.o managers/view.o managers/view_test.o managers/placement.o managers/placement_test.o
