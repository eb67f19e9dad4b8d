#!/usr/bin/env bash
# Converts the disk of make.sh for a UEFI firmware that checks signatures: make-uefi.sh TINY.raw OUT.raw
# Debian's signed shim and GRUB start the kernel of TINY.raw, which Debian signed too.
set -euo pipefail
tiny=${1:?make-uefi.sh TINY.raw OUT.raw}
out=$(realpath -m "${2:?make-uefi.sh TINY.raw OUT.raw}")
cache=${CACHE:-/var/cache/berth-tiny-guest}/uefi
boot_mib=64 data_mib=31
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch_packages() {
  [ ! -e "$cache/tree/usr/lib/shim/shimx64.efi.signed" ] || return 0
  rm -rf "$cache" && mkdir -p "$cache/tree" "$cache/debs"
  (cd "$cache/debs" && apt-get download -qq shim-signed grub-efi-amd64-signed 2>/dev/null)
  for package in "$cache"/debs/*.deb; do dpkg-deb -x "$package" "$cache/tree"; done
}

write_boot() {
  local image=("-i" "$out@@1M")
  mkfs.vfat -F16 --offset 2048 "$out" $((boot_mib * 1024)) >/dev/null 2>&1
  mmd "${image[@]}" ::EFI ::EFI/BOOT ::EFI/debian
  mcopy "${image[@]}" "$cache/tree/usr/lib/shim/shimx64.efi.signed" ::EFI/BOOT/BOOTX64.EFI
  mcopy "${image[@]}" "$cache/tree/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" ::EFI/BOOT/grubx64.efi
  printf 'linux /vmlinuz console=tty0 console=ttyS0,115200 quiet panic=1\ninitrd /initrd\nboot\n' >"$work/grub.cfg"
  mcopy "${image[@]}" "$work/grub.cfg" ::EFI/debian/grub.cfg
  for name in vmlinuz initrd; do
    mcopy -i "$tiny@@1M" "::$name" "$work/$name"
    mcopy "${image[@]}" "$work/$name" "::$name"
  done
}

fetch_packages
rm -f "$out" && truncate -s $((2 + boot_mib + data_mib))M "$out"
printf 'label: gpt\nstart=2048, size=%d, type=uefi\nstart=%d, size=%d, type=linux\n' \
  $((boot_mib * 2048)) $(((boot_mib + 1) * 2048)) $((data_mib * 2048)) | sfdisk -q "$out"
write_boot
mke2fs -q -t ext4 -L data -E offset=$(((boot_mib + 1) * 1048576)),assume_storage_prezeroed=1 -m 0 \
  "$out" $(((data_mib - 1) * 1024))k
