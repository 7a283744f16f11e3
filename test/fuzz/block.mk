# SPDX-License-Identifier: MIT
gpt_fuzz-objs := drivers/block/gpt.o drivers/block/gpt_image_test.o
gpt_fuzz-max-len := 512
