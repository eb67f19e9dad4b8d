import type { Recipe } from './catalog.js'

/*
 * This module plans steps that turn plain Debian into an image. The steps remove data of the host that built the image,
 * and mask units that cannot work in a container. Values that must be unique are left to each guest's first boot.
 */

/** One idempotent change of the tree. Paths are relative to its root. */
export type ContentStep =
  | { readonly op: 'write'; readonly path: string; readonly text: string; readonly mode: number }
  | { readonly op: 'link'; readonly path: string; readonly target: string }
  | { readonly op: 'remove'; readonly path: string }
  | { readonly op: 'empty'; readonly directory: string }

export const packages: readonly string[] = [
  'systemd-sysv',
  'dbus',
  'openssh-server',
  'iproute2',
  'iputils-ping',
  'netbase',
  'procps',
  'ca-certificates',
  'curl',
  'less',
  'nano',
  'vim-tiny',
  'tzdata',
]

/**
 * Units to mask, because they cannot work or are useless in an unprivileged container: kernel filesystems and modules,
 * devices, file system maintenance, the audit socket.
 */
const maskedUnits: readonly string[] = [
  'dev-hugepages.mount',
  'proc-sys-fs-binfmt_misc.automount',
  'sys-fs-fuse-connections.mount',
  'sys-kernel-config.mount',
  'sys-kernel-debug.mount',
  'sys-kernel-tracing.mount',
  'kmod-static-nodes.service',
  'systemd-modules-load.service',
  'systemd-binfmt.service',
  'systemd-firstboot.service',
  'systemd-random-seed.service',
  'systemd-repart.service',
  'systemd-pstore.service',
  'systemd-remount-fs.service',
  'systemd-tmpfiles-setup-dev.service',
  'systemd-tmpfiles-setup-dev-early.service',
  'sshd-keygen.service',
  'systemd-journald-audit.socket',
  'getty-static.service',
  'systemd-ask-password-console.path',
  'e2scrub_reap.service',
  'e2scrub_all.timer',
  'fstrim.timer',
  'systemd-networkd.service',
  'systemd-networkd.socket',
  'systemd-networkd-wait-online.service',
]

/** Units to disable: timers that would wake all guests at once, and a getty. Users can enable them with systemctl. */
const disabledUnits: readonly string[] = [
  'timers.target.wants/apt-daily.timer',
  'timers.target.wants/apt-daily-upgrade.timer',
  'timers.target.wants/dpkg-db-backup.timer',
  'getty.target.wants/getty@tty1.service',
]

/** Types of SSH host keys to remove. Each guest creates its own, because equal keys would permit impersonation. */
const hostKeyTypes = ['rsa', 'ecdsa', 'ed25519']

export function planContent(entry: Recipe): ContentStep[] {
  return [
    ...planIdentity(),
    ...planSsh(),
    ...planUnits(),
    ...planApt(entry),
    file('etc/default/locale', 'LANG=C.UTF-8\n'),
    file('etc/fstab', ''),
    ...['dev', 'tmp', 'run', 'var/tmp', 'var/cache/apt', 'var/log/apt', 'var/lib/apt/lists'].map(
      (directory) => ({ op: 'empty', directory }) as const,
    ),
    ...planUpToDate(),
  ]
}

export function planIdentity(): ContentStep[] {
  return [
    // systemd creates an id if this file is empty. If it is missing, systemd also applies presets (machine-id(5)).
    file('etc/machine-id', ''),
    { op: 'remove', path: 'var/lib/dbus/machine-id' },
    { op: 'remove', path: 'etc/hostname' },
    { op: 'remove', path: 'etc/resolv.conf' },
    file('etc/resolv.conf', ''),
    file('etc/hosts', '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n'),
  ]
}

export function planSsh(): ContentStep[] {
  const files = hostKeyTypes.flatMap((type) => [`ssh_host_${type}_key`, `ssh_host_${type}_key.pub`])
  return [
    ...files.map((name) => ({ op: 'remove', path: `etc/ssh/${name}` }) as const),
    file('etc/ssh/sshd_config.d/10-guest.conf', sshdConfig),
    file('etc/systemd/system/ssh-host-keys.service', hostKeyUnit),
    link('etc/systemd/system/ssh.service.wants/ssh-host-keys.service', '../ssh-host-keys.service'),
  ]
}

/** Has no RSA key, because creating one takes longer than the rest of a boot. Clients since 2014 do not need it. */
const sshdConfig = `PermitRootLogin yes
PasswordAuthentication yes
HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_ecdsa_key
`

/**
 * Returns a shell command that creates a host key if the file is missing or empty (for example after a power loss). The
 * key is created under another name and then renamed, so that it is never incomplete.
 */
const makeKey = (type: string): string =>
  `k=/etc/ssh/ssh_host_${type}_key; test -s $k || { rm -f $k.new $k.new.pub; ` +
  `ssh-keygen -q -t ${type} -N "" -C "" -f $k.new && mv $k.new.pub $k.pub && mv $k.new $k; }`

const hostKeyUnit = `[Unit]
Description=SSH host keys of this machine
Before=ssh.service ssh.socket

[Service]
Type=oneshot
RemainAfterExit=yes
${['ed25519', 'ecdsa'].map((type) => `ExecStart=/bin/sh -c '${makeKey(type)}'`).join('\n')}
`

function planUnits(): ContentStep[] {
  return [
    ...maskedUnits.map((unit) => link(`etc/systemd/system/${unit}`, '/dev/null')),
    ...disabledUnits.map((path) => ({ op: 'remove', path: `etc/systemd/system/${path}` }) as const),
    { op: 'remove', path: 'etc/systemd/system/sysinit.target.wants/systemd-pstore.service' },
    { op: 'remove', path: 'etc/systemd/system/multi-user.target.wants/e2scrub_reap.service' },
    link('etc/systemd/system/default.target', '/lib/systemd/system/multi-user.target'),
    file('etc/systemd/journald.conf.d/10-guest.conf', '[Journal]\nSystemMaxUse=32M\nRuntimeMaxUse=8M\n'),
    // Starting logind would take a tenth of the CPU time of a boot. D-Bus starts it later, when `loginctl` or
    // `shutdown` needs it (docs/design/guest-image.md).
    link('etc/systemd/system/multi-user.target.wants/systemd-logind.service', '/dev/null'),
    file('etc/systemd/system/systemd-logind.service.d/10-guest.conf', logindConfig),
  ]
}

/** Turns off logind's sandbox. AppArmor denies guests the sandbox's mounts, so each caller would wait 25 s. */
const logindConfig = `[Service]
PrivateTmp=no
ProtectSystem=no
ProtectHome=no
ProtectControlGroups=no
ProtectKernelLogs=no
ProtectKernelModules=no
ProtectHostname=no
RestrictNamespaces=no
`

/** Plans the package sources. They are always Debian's own servers, even if the image was built from another mirror. */
export function planApt({ suite }: Recipe): ContentStep[] {
  const source = (uri: string, suites: string): string =>
    `Types: deb\nURIs: ${uri}\nSuites: ${suites}\nComponents: main\n` +
    'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n'
  return [
    { op: 'remove', path: 'etc/apt/sources.list' },
    { op: 'empty', directory: 'etc/apt/sources.list.d' },
    { op: 'remove', path: 'etc/apt/apt.conf.d/99mmdebstrap' },
    { op: 'remove', path: 'etc/dpkg/dpkg.cfg.d/99mmdebstrap' },
    file(
      'etc/apt/sources.list.d/debian.sources',
      `${source('http://deb.debian.org/debian', `${suite} ${suite}-updates`)}\n` +
        source('http://deb.debian.org/debian-security', `${suite}-security`),
    ),
  ]
}

/**
 * Plans files that must be written last, so that they are newer than /usr. A first boot then neither runs ldconfig and
 * sysusers nor rebuilds catalogs (systemd-update-done(8)).
 */
export function planUpToDate(): ContentStep[] {
  return ['etc/.updated', 'var/.updated'].flatMap((path) => [{ op: 'remove', path }, file(path, '')] as const)
}

export function file(path: string, text: string, mode = 0o644): ContentStep {
  return { op: 'write', path, text, mode }
}

export function link(path: string, target: string): ContentStep {
  return { op: 'link', path, target }
}
