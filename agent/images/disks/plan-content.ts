import type { Recipe } from '../catalog.js'
import { file, link, planApt, planIdentity, planSsh, planUpToDate, type ContentStep } from '../content.js'

/*
 * This module plans the content that turns a plain Debian into the disk of a virtual machine: a kernel and a boot
 * loader, cloud-init, a guest agent and a serial console (docs/kvm.md).
 */

export const diskPackages: readonly string[] = [
  'linux-image-cloud-amd64',
  'initramfs-tools',
  'zstd',
  'grub2-common',
  'grub-pc-bin',
  'udev',
  'e2fsprogs',
  'cloud-init',
  'cloud-guest-utils',
  'qemu-guest-agent',
  'systemd-resolved',
]

/** Packages with tools to repair disks that no longer boot. */
export const rescuePackages: readonly string[] = [
  'btrfs-progs',
  'cryptsetup-bin',
  'dosfstools',
  'gddrescue',
  'gdisk',
  'lvm2',
  'mdadm',
  'ntfs-3g',
  'parted',
  'rsync',
  'xfsprogs',
]

export interface DiskFacts {
  /** UUID by which the boot loader finds the root partition. */
  readonly rootUuid: string
  /** Version of the kernel in its file names. */
  readonly kernel: string
}

/** Plans the configuration of an initramfs with only the needed modules. It has a third of the default size. */
export function planInitramfs(): { directory: string; name: string; lines: string[] }[] {
  return [
    { directory: 'etc/initramfs-tools/conf.d', name: 'berth', lines: ['MODULES=list', 'COMPRESS=zstd', 'FSTYPE=ext4'] },
    { directory: 'etc/initramfs-tools', name: 'modules', lines: ['virtio_pci', 'virtio_blk', 'virtio_scsi', 'sd_mod'] },
  ]
}

const maskedUnits = ['systemd-networkd-wait-online.service', 'getty-static.service', 'e2scrub_reap.service']

/** Timers to disable, because they would wake all guests at the same time. Users can enable them with systemctl. */
const disabledTimers = ['apt-daily', 'apt-daily-upgrade', 'dpkg-db-backup', 'e2scrub_all', 'fstrim']

const wants = 'etc/systemd/system'

export function planDiskContent(recipe: Recipe, facts: DiskFacts): ContentStep[] {
  return [
    ...planIdentity(),
    link('etc/resolv.conf', '../run/systemd/resolve/stub-resolv.conf'),
    ...planSsh(),
    ...planUnits(),
    ...planApt(recipe),
    file('etc/default/locale', 'LANG=C.UTF-8\n'),
    file('etc/cloud/cloud.cfg.d/90-berth.cfg', cloudConfig),
    file('etc/udev/rules.d/40-vm-hotadd.rules', hotAddRules),
    ...planBoot(facts),
    ...['tmp', 'run', 'var/tmp', 'var/cache/apt', 'var/log/apt', 'var/lib/apt/lists'].map(
      (directory) => ({ op: 'empty', directory }) as const,
    ),
    ...planUpToDate(),
  ]
}

function planUnits(): ContentStep[] {
  const networkd = '/lib/systemd/system/systemd-networkd'
  return [
    link(`${wants}/multi-user.target.wants/systemd-networkd.service`, `${networkd}.service`),
    link(`${wants}/sockets.target.wants/systemd-networkd.socket`, `${networkd}.socket`),
    ...maskedUnits.map((unit) => link(`${wants}/${unit}`, '/dev/null')),
    ...disabledTimers.map((timer) => ({ op: 'remove', path: `${wants}/timers.target.wants/${timer}.timer` }) as const),
    link(`${wants}/default.target`, '/lib/systemd/system/multi-user.target'),
    file('etc/systemd/journald.conf.d/10-guest.conf', '[Journal]\nSystemMaxUse=64M\n'),
  ]
}

/**
 * Configures cloud-init with the modules that a customer's cloud-config is allowed to use. Modules for other clouds and
 * distributions would slow down each boot. A separate unit creates the host keys. If cloud-init created them, a reset
 * soon afterwards could leave empty files, with which sshd would never start.
 */
const cloudConfig = `datasource_list: [ NoCloud, None ]
datasource: { NoCloud: { fs_label: cidata } }
disable_root: false
ssh_genkeytypes: []
ssh_deletekeys: false
no_ssh_fingerprints: true
ssh: { emit_keys_to_console: false }
system_info: { network: { renderers: ['networkd'] } }
manage_etc_hosts: false
cloud_init_modules: [ bootcmd, seed_random, write-files, growpart, resizefs, disk_setup, mounts, set_hostname, update_hostname, update_etc_hosts, ca-certs, users-groups, ssh ]
cloud_config_modules: [ ssh-import-id, keyboard, locale, set-passwords, apt-configure, ntp, timezone, runcmd ]
cloud_final_modules: [ package-update-upgrade-install, write-files-deferred, scripts-vendor, scripts-per-once, scripts-per-boot, scripts-per-instance, scripts-user, phone-home, final-message, power-state-change ]
users: []
apt: { preserve_sources_list: true }
locale: C.UTF-8
preserve_hostname: false
`

const hotAddRules = `SUBSYSTEM=="memory", ACTION=="add", DEVPATH=="/devices/system/memory/memory[0-9]*", TEST=="state", ATTR{state}!="online", ATTR{state}="online"
SUBSYSTEM=="cpu", ACTION=="add", TEST=="online", ATTR{online}=="0", ATTR{online}="1"
`

/** Plans the boot loader's first menu. Each kernel update replaces it. */
function planBoot({ rootUuid, kernel }: DiskFacts): ContentStep[] {
  return [
    file('etc/fstab', `UUID=${rootUuid} / ext4 rw,discard,errors=remount-ro 0 1\n`),
    file('etc/default/grub', grubDefaults),
    file(
      'boot/grub/grub.cfg',
      `serial --unit=0 --speed=115200
terminal_output serial console
set timeout=0
search --no-floppy --fs-uuid --set=root ${rootUuid}
linux /boot/vmlinuz-${kernel} root=UUID=${rootUuid} ro ${commandLine}
initrd /boot/initrd.img-${kernel}
boot
`,
    ),
  ]
}

const commandLine = 'console=tty0 console=ttyS0,115200'

const grubDefaults = `GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_RECORDFAIL_TIMEOUT=0
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX="${commandLine}"
GRUB_TERMINAL="console serial"
GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"
GRUB_DISABLE_OS_PROBER=true
`

/** Returns the commands that GRUB's core runs before it reads its menu. */
export function planCore(rootUuid: string): string {
  return `search.fs_uuid ${rootUuid} root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n`
}

export const coreModules: readonly string[] = [
  'biosdisk',
  'part_gpt',
  'ext2',
  'search',
  'search_fs_uuid',
  'normal',
  'configfile',
  'linux',
  'serial',
  'terminal',
  'echo',
  'test',
  'loadenv',
  'gfxterm',
  'all_video',
  'boot',
  'minicmd',
  'ls',
  'cat',
  'gzio',
]
