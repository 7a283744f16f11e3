#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# PID 1 of a reference guest: load the modules, then run the commands that come by virtio port.
# A command is one line; its output is followed by a line "@@ <exit status>".
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root LD_LIBRARY_PATH=/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
for word in $(cat /proc/cmdline); do
	case $word in
	reference_ip=*) ip=${word#*=} ;;
	reference_skip=*) skip=${word#*=} ;;
	esac
done
for module in $(cat /lib/mods/order); do
	case ",$skip," in
	*",$module,"*) continue ;;
	esac
	insmod /lib/mods/"$module".ko || echo "reference: insmod $module failed" >/dev/kmsg
done
ifconfig lo 127.0.0.1 up
[ -e /sys/class/net/eth0 ] && ifconfig eth0 "$ip" up
ulimit -l unlimited
set -- /dev/vport*p1
exec 3<>"$1"
exec <&3 >&3 2>&3
echo "@@ ready"
while read -r line; do
	sh -c "$line" </dev/null
	echo "@@ $?"
done
poweroff -f
