# SPDX-License-Identifier: MIT
# The choice of a program to end.
prog-y   += oom
oom-objs := monitors/processor/process/oom_score.o monitors/processor/process/oom_score_test.o
