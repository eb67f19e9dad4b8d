import type { RootChange } from '../host/guest/guest-root.js'

/** Facts about a foreign root filesystem that determine which files Berth adapts. */
export interface TreeFacts {
  /** Directories from the list `askedAbout` that exist in the tree and are reached without symbolic links. */
  readonly directories: ReadonlySet<string>
  readonly files: ReadonlySet<string>
  /** Names of the host keys in etc/ssh. */
  readonly hostKeys: readonly string[]
  /** Content of etc/ssh/sshd_config. Empty: the file does not exist. */
  readonly sshdConfig: string
}

export const askedAbout = {
  directories: [
    'etc',
    'etc/ssh',
    'etc/ssh/sshd_config.d',
    'etc/systemd',
    'etc/NetworkManager',
    'etc/network',
    'etc/sysconfig/network',
  ],
  files: ['etc/machine-id', 'var/lib/dbus/machine-id'],
} as const

/** Lines that must precede the distribution's lines, because sshd uses the first value it finds (sshd_config(5)). */
const sshdConfig = 'PermitRootLogin yes\nPasswordAuthentication yes\n'

/** Makes network services ignore eth0, which the host configures. A DHCP client would remove the address of eth0. */
const unmanaged = {
  networkd: '[Match]\nName=eth0\n\n[Link]\nUnmanaged=yes\n',
  networkManager: '[keyfile]\nunmanaged-devices=interface-name:eth0\n',
  ifupdown: 'auto lo\niface lo inet loopback\n# eth0 is set up by the host.\n',
  wicked: "STARTMODE='off'\nBOOTPROTO='none'\n",
} as const

const keyUnit = '[Service]\nExecStartPre=\nExecStartPre=/usr/bin/ssh-keygen -A\n'

/** Plans the changes that adapt a foreign root filesystem to guests of this host. */
export function planAdaptation(facts: TreeFacts): RootChange[] {
  return [
    ...planNetwork(facts),
    ...planIdentity(facts),
    ...planSshd(facts),
    { kind: 'directory', path: 'root', mode: 0o700 },
  ]
}

/** Plans the changes that make network services ignore eth0. */
export function planNetwork({ directories }: TreeFacts): RootChange[] {
  return [
    ...when(directories.has('etc/systemd'), [
      directory('etc/systemd/network'),
      file('etc/systemd/network/00-berth.network', unmanaged.networkd),
    ]),
    ...when(directories.has('etc/NetworkManager'), [
      directory('etc/NetworkManager/conf.d'),
      file('etc/NetworkManager/conf.d/00-berth.conf', unmanaged.networkManager),
    ]),
    ...when(directories.has('etc/network'), [file('etc/network/interfaces', unmanaged.ifupdown)]),
    ...when(directories.has('etc/sysconfig/network'), [file('etc/sysconfig/network/ifcfg-eth0', unmanaged.wicked)]),
  ]
}

/**
 * Plans the reset of values that must be unique to each guest. Guests replace an empty machine-id (machine-id(5)) and
 * empty host keys (ssh-keygen(1), -A).
 */
function planIdentity({ directories, files, hostKeys }: TreeFacts): RootChange[] {
  const units = ['ssh', 'sshd'].flatMap((unit) => [
    directory(`etc/systemd/system/${unit}.service.d`),
    file(`etc/systemd/system/${unit}.service.d/00-berth.conf`, keyUnit),
  ])
  return [
    ...askedAbout.files.filter((path) => files.has(path)).map((path) => file(path, '')),
    ...hostKeys.map((name) => file(`etc/ssh/${name}`, '', name.endsWith('.pub') ? 0o644 : 0o600)),
    ...when(hostKeys.length > 0 && directories.has('etc/systemd'), [directory('etc/systemd/system'), ...units]),
  ]
}

function planSshd({ directories, sshdConfig: found }: TreeFacts): RootChange[] {
  if (!directories.has('etc/ssh') || found === '') return []
  const includes = /^\s*Include\s+\S*sshd_config\.d\//m.test(found)
  return includes && directories.has('etc/ssh/sshd_config.d')
    ? [file('etc/ssh/sshd_config.d/00-berth.conf', sshdConfig)]
    : [file('etc/ssh/sshd_config', sshdConfig + found)]
}

function when(holds: boolean, changes: RootChange[]): RootChange[] {
  return holds ? changes : []
}

function directory(path: string): RootChange {
  return { kind: 'directory', path, mode: 0o755 }
}

function file(path: string, content: string, mode = 0o644): RootChange {
  return { kind: 'file', path, mode, content }
}
