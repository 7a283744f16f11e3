/* SPDX-License-Identifier: MIT */
#pragma once

#define SYSTEM_HOSTNAME "tessera" /* as uname() tells it */
