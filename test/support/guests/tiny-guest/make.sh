#!/usr/bin/env bash
# Makes the disk of a virtual machine that boots in seconds: make.sh OUT.raw
# The disk has syslinux, Debian's cloud kernel, and an initial file system of busybox, dropbear and the guest agent. Its
# init reads a NoCloud seed of JSON and stores the settings on a second partition. Debian's packages of kernel and agent
# are cached in the folder CACHE.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m "${1:?make.sh OUT.raw}")
cache=${CACHE:-/var/cache/berth-tiny-guest}
boot_mib=64 data_mib=31
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch_packages() {
  local kernel
  kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  [ ! -e "$cache/tree/lib/modules/${kernel#linux-image-}/modules.dep.bin" ] || return 0
  rm -rf "$cache" && mkdir -p "$cache/tree" "$cache/debs"
  (cd "$cache/debs" && apt-get download -qq "$kernel" qemu-guest-agent liburing2 libnuma1 2>/dev/null)
  for package in "$cache"/debs/*.deb; do dpkg-deb -x "$package" "$cache/tree"; done
  depmod -b "$cache/tree" "${kernel#linux-image-}"
}

modules='virtio virtio_ring virtio_pci virtio_blk virtio_net virtio_console virtio_balloon virtio_mem virtio-rng isofs vfat
  nls_cp437 nls_ascii evdev button virtio_scsi sr_mod pvpanic-mmio pvpanic-pci'

copy_modules() {
  local from=$1 needed name
  needed=$(for name in $modules; do
    grep "/$name\.ko:" "$from/modules.dep" | sed 's/://' | tr ' ' '\n' | tac
  done | awk '!seen[$1]++')
  for name in $needed; do
    cp "$from/$name" "$root/lib/modules/"
    basename "$name" >>"$root/lib/modules/order"
  done
}

copy_programs() {
  local tree=$1 library
  local libraries=$tree/usr/lib/x86_64-linux-gnu
  cp /bin/busybox "$root/bin/"
  for name in sh mount umount; do ln -s busybox "$root/bin/$name"; done
  cp /usr/sbin/dropbear /usr/bin/dropbearkey "$tree/usr/sbin/qemu-ga" "$root/usr/sbin/"
  for program in /usr/sbin/dropbear /usr/bin/dropbearkey "$tree/usr/sbin/qemu-ga"; do
    LD_LIBRARY_PATH=$libraries ldd "$program" | grep -o '/[^ ]*\.so[^ ]*'
  done | sort -u >"$work/libraries"
  while read -r library; do
    mkdir -p "$root/lib/x86_64-linux-gnu" "$root/lib64"
    case $library in
      */ld-linux*) cp -L "$library" "$root/lib64/" ;;
      *) cp -L "$library" "$root/lib/x86_64-linux-gnu/" ;;
    esac
  done <"$work/libraries"
  cp -L /lib/x86_64-linux-gnu/libnss_files.so.2 "$root/lib/x86_64-linux-gnu/"
  install -m 755 "$here/init" "$root/init"
  install -m 755 "$here/chpasswd" "$root/usr/sbin/chpasswd"
  install -m 755 "$here/chpasswd" "$root/usr/sbin/passwd"
}

write_accounts() {
  printf 'root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run:/bin/false\n' >"$root/etc/passwd"
  echo 'root:*:19000:0:99999:7:::' >"$root/etc/shadow"
  printf 'root:x:0:\ntty:x:5:\n' >"$root/etc/group"
  echo /bin/sh >"$root/etc/shells"
}

write_disk() {
  local kernel=$1
  rm -f "$out" && truncate -s $((1 + boot_mib + data_mib))M "$out"
  printf 'label: dos\nstart=2048, size=%d, type=6, bootable\nstart=%d, type=83\n' \
    $((boot_mib * 2048)) $(((boot_mib + 1) * 2048)) | sfdisk -q "$out"
  mkfs.vfat -F16 --offset 2048 "$out" $((boot_mib * 1024)) >/dev/null 2>&1
  printf 'DEFAULT l\nPROMPT 0\nTIMEOUT 0\nLABEL l\n LINUX vmlinuz\n INITRD initrd\n APPEND %s\n' \
    'console=tty0 console=ttyS0,115200 quiet mitigations=off cryptomgr.notests panic=1' >"$work/syslinux.cfg"
  mcopy -i "$out@@1M" "$kernel" ::vmlinuz
  mcopy -i "$out@@1M" "$work/initrd" ::initrd
  mcopy -i "$out@@1M" "$work/syslinux.cfg" ::
  syslinux --install --offset 1048576 "$out"
  dd if=/usr/lib/SYSLINUX/mbr.bin of="$out" conv=notrunc bs=440 count=1 status=none
  mke2fs -q -t ext4 -L data -E offset=$(((boot_mib + 1) * 1048576)),assume_storage_prezeroed=1 -m 0 \
    "$out" $(((data_mib - 1) * 1024))k
}

fetch_packages
root=$work/root
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,usr/libexec,proc,sys,dev,run,tmp,etc/dropbear,root/.ssh,mnt,data}
mkdir -p "$root"/{lib/modules,lib64,var/run,var/log}
copy_modules "$(echo "$cache"/tree/lib/modules/*)"
copy_programs "$cache/tree"
write_accounts
(cd "$root" && find . | cpio -o -H newc --quiet) >"$work/initrd"
write_disk "$(echo "$cache"/tree/boot/vmlinuz-*)"
