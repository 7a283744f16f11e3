/* SPDX-License-Identifier: MIT */
/* ioctl() of terminals and of every file: Linux's <asm/ioctls.h>, <asm/termios.h>. */
#pragma once

#include <stdint.h>

#define TCGETS       0x5401u
#define TCSETS       0x5402u
#define TCSETSW      0x5403u
#define TCSETSF      0x5404u
#define TCGETA       0x5405u
#define TCSETA       0x5406u
#define TCSETAW      0x5407u
#define TCSETAF      0x5408u
#define TCSBRK       0x5409u
#define TCXONC       0x540au
#define TCFLSH       0x540bu
#define TIOCEXCL     0x540cu
#define TIOCNXCL     0x540du
#define TIOCSCTTY    0x540eu
#define TIOCGPGRP    0x540fu
#define TIOCSPGRP    0x5410u
#define TIOCOUTQ     0x5411u
#define TIOCSTI      0x5412u
#define TIOCGWINSZ   0x5413u
#define TIOCSWINSZ   0x5414u
#define TIOCGSOFTCAR 0x5419u
#define TIOCSSOFTCAR 0x541au
#define FIONREAD     0x541bu
#define TIOCPKT      0x5420u
#define FIONBIO      0x5421u
#define TIOCNOTTY    0x5422u
#define TIOCSETD     0x5423u
#define TIOCGETD     0x5424u
#define TCSBRKP      0x5425u
#define TIOCGSID     0x5429u
#define TCGETS2      0x802c542au
#define TCSETS2      0x402c542bu
#define TCSETSW2     0x402c542cu
#define TCSETSF2     0x402c542du
#define TIOCGPTN     0x80045430u
#define TIOCSPTLCK   0x40045431u
#define TIOCSIG      0x40045436u
#define TIOCGPKT     0x80045438u
#define TIOCGPTLCK   0x80045439u
#define TIOCGEXCL    0x80045440u
#define TIOCGPTPEER  0x5441u
#define FIONCLEX     0x5450u
#define FIOCLEX      0x5451u
#define FIOASYNC     0x5452u
#define FICLONE      0x40049409u
#define FIOSETOWN    0x8901u
#define SIOCSPGRP    0x8902u
#define FIOGETOWN    0x8903u
#define SIOCGPGRP    0x8904u

/* Of files on a file system: <linux/fs.h>. */
#define FS_IOC_SETFLAGS 0x40086602u
#define FS_IOC_GETFLAGS 0x80086601u

/* Of namespaces: <linux/nsfs.h>. */
#define NS_GET_USERNS    0xb701u
#define NS_GET_PARENT    0xb702u
#define NS_GET_NSTYPE    0xb703u
#define NS_GET_OWNER_UID 0xb704u

struct linux_winsize {
	uint16_t row, col, xpixel, ypixel;
};
