#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# PID 1 of a Linux guest of ./tessera run --sweep --beside-linux: load the modules, then run the
# commands that come by virtio port. A command is one line; a line "@@ STATUS" follows its output.
/bin/busybox mkdir -p /guest/bin
/bin/busybox --install -s /guest/bin
export PATH=/guest/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# /tmp can swap, and keeps what lies there: the program, if that is where it comes from.
mkdir /guest/tmp
mount -t tmpfs tmp /guest/tmp
cp -a /tmp/. /guest/tmp
mount -o move /guest/tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
for module in $(cat /guest/mods/order); do
	insmod /guest/mods/"$module".ko || echo "insmod $module failed" > /dev/kmsg
done
for word in $(cat /proc/cmdline); do
	case $word in
	guest_ip=*) ip=${word#*=} ;;
	esac
done
ifconfig lo 127.0.0.1 up
ifconfig eth0 "$ip" mtu 9000 up
set -- /dev/vport*p1
exec 3<>"$1"
exec <&3 >&3 2>&3
echo "@@ ready"
while read -r line; do
	sh -c "$line" </dev/null
	echo "@@ $?"
done
poweroff -f
