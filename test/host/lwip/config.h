/* SPDX-License-Identifier: MIT */
/* Of a configure script, which lwIP's tests include: it has nothing to say here. */
#pragma once
