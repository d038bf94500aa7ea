#!/bin/busybox sh
# The only process that the kernel starts.
/bin/busybox mount -t proc proc /proc
mount -t devtmpfs dev /dev
mount -t sysfs sys /sys
exec >/dev/console 2>&1
. /about

[ "$BEHAVIOUR" != panics ] || exit 1

# Which of them needs which is another from kernel to kernel: round after round, whichever finds what it needs, until a round
# brings none.
more=yes
while [ "$more" ]; do
    more=
    for module in /modules/*.ko; do
        insmod "$module" 2>/dev/null && rm "$module" && more=yes
    done
done
for module in /modules/*.ko; do
    [ ! -f "$module" ] || insmod "$module"
done

end() {
    echo "notes: $1"
    umount /data
    poweroff -f
}

if [ "$BEHAVIOUR" != deaf ]; then
    for event in /sys/class/input/event*; do
        [ "$(cat "$event/device/name")" = "Power Button" ] || continue
        # One event is all that is waited for.
        (dd if="/dev/input/${event##*/}" of=/dev/null bs=24 count=1 2>/dev/null && end "power off") &
    done
fi

if ! mount -t ext4 /dev/vda /data 2>/dev/null; then
    mke2fs -F /dev/vda >/dev/null
    mount -t ext4 /dev/vda /data
fi
have=$(cat /data/version 2>/dev/null || echo 0)
[ "$have" -le "$DATA" ] || end "the data is of version $have, which is newer than $DATA"
if [ ! -d "/data/notes.v$DATA" ]; then
    # Copied forward: what an older release left is never changed.
    mkdir /data/coming
    [ "$have" = 0 ] || cp -a "/data/notes.v$have/." /data/coming/
    mv /data/coming "/data/notes.v$DATA"
fi
echo "$DATA" >/data/version
sync

ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
nc -ll -p 80 -e /answer &
until grep -qs ':0050 ' /proc/net/tcp /proc/net/tcp6; do usleep 20000; done
[ "$BEHAVIOUR" = never-ready ] || echo "notes: $VERSION is ready"
if [ "$BEHAVIOUR" = talks ]; then
    while :; do echo "a line that nobody asked for, and that is followed by the same line again"; done
fi
while :; do sleep 1000; done
