import { keysOf, noPassword } from '../common/shadow-field.js'
import type { Machine, MachineNic } from '../contract.js'

/** What a guest's disk was told at its first boot, kept in its volume: it goes with the disk's snapshots. */
export interface Instance {
  /** cloud-init sets up a disk that does not know it yet. */
  readonly id: string
  /** crypt(5) hash of root's password. */
  readonly passwordHash?: string
  /** For systems that take no hash. */
  readonly sealedPassword?: string
  readonly publicKey?: string
  /** Lines in place of `publicKey`. */
  readonly authorizedKeys?: readonly string[]
  /** The customer's own. */
  readonly userData?: string
  /** A password that the running guest could not be given: set at the next boot, once for each `serial`. */
  readonly reset?: { readonly serial: string; readonly passwordHash: string }
}

/** What a CD tells a system of itself. */
export interface Seed {
  readonly label: 'cidata' | 'config-2'
  readonly files: readonly SeedFile[]
}

export interface SeedFile {
  /** A path in the CD. */
  readonly name: string
  readonly content: string
}

type Named = Pick<Machine, 'hostname' | 'resolvers' | 'nic'>

/**
 * Plans the files of a NoCloud seed. JSON is YAML, so no value can change the structure.
 * Source: cloudinit.readthedocs.io, NoCloud
 */
export function planSeed(machine: Named, instance: Instance): SeedFile[] {
  return [
    file('meta-data', { 'instance-id': instance.id, 'local-hostname': machine.hostname }),
    file('network-config', planNetwork(machine.nic, machine.resolvers)),
    { name: 'user-data', content: planUserData(instance) },
  ]
}

/**
 * Version 2, in the words that netplan, networkd and eni alike render right: gateways as such, since routes of `::/0`
 * become `::/64` and `to: default` ends networkd's renderer.
 */
export function planNetwork(nic: MachineNic, resolvers: readonly string[]): unknown {
  const { mac, ipv4, prefixLength, gateway, ipv6Addresses, gateway6 } = nic
  const eth0 = {
    match: { macaddress: mac },
    'set-name': 'eth0',
    ...{ dhcp4: false, dhcp6: false, 'accept-ra': false, 'link-local': ['ipv6'] },
    addresses: [`${ipv4}/${prefixLength}`, ...ipv6Addresses.map((address) => `${address}/128`)],
    gateway4: gateway,
    ...(ipv6Addresses.length > 0 ? { gateway6 } : {}),
    nameservers: { addresses: resolvers, search: [] },
  }
  return { version: 2, ethernets: { eth0 } }
}

/** Ours last: a list is appended to the customer's, and what the customer says of a key is left. */
const merge = [
  { name: 'list', settings: ['append'] },
  { name: 'dict', settings: ['no_replace', 'recurse_list'] },
]

/** A locked account would be wrong for a key: an sshd without PAM refuses its keys as well. */
function planConfig(instance: Instance): unknown {
  const { passwordHash, reset } = instance
  const keys = keysOf(instance)
  const root = {
    name: 'root',
    lock_passwd: false,
    hashed_passwd: passwordHash ?? noPassword,
    ...(keys.length === 0 ? {} : { ssh_authorized_keys: keys }),
  }
  return {
    merge_how: merge,
    // Addresses that changed are taken at the next boot, without the rest of a first boot.
    updates: { network: { when: ['boot-new-instance', 'boot'] } },
    disable_root: false,
    ...(passwordHash === undefined ? {} : { ssh_pwauth: true }),
    users: [root],
    ...(reset === undefined ? {} : { bootcmd: [planReset(reset)] }),
  }
}

/** cloud-init-per keeps a mark of its own in the guest, so that the password is not set again at later boots. */
function planReset({ serial, passwordHash }: NonNullable<Instance['reset']>): string[] {
  return ['cloud-init-per', 'once', `berth-password-${serial}`, 'usermod', '-p', passwordHash, 'root']
}

/**
 * A part for the customer and one for us. A customer's text of any bytes is base64: it can end no part.
 * Source: cloudinit.readthedocs.io, MIME multi-part archive
 */
export function planUserData(instance: Instance): string {
  const own = part('text/cloud-config', `#cloud-config\n${JSON.stringify(planConfig(instance))}\n`)
  const customers = instance.userData === undefined ? [] : [customersPart(instance.userData)]
  return [
    `Content-Type: multipart/mixed; boundary="${boundary}"\nMIME-Version: 1.0\n\n`,
    ...[...customers, own].map((text) => `--${boundary}\n${text}`),
    `--${boundary}--\n`,
  ].join('')
}

const boundary = 'BERTH-SEED'

function part(type: string, text: string): string {
  return `Content-Type: ${type}; charset="utf-8"\nMIME-Version: 1.0\n\n${text}\n`
}

/** How the text begins says what it is; a type that cloud-init does not know it finds out itself. */
function customersPart(text: string): string {
  const encoded = Buffer.from(text, 'utf8').toString('base64')
  const lines = encoded.replace(/.{76}/g, '$&\n')
  const type = /^#cloud-config/.test(text) ? 'text/cloud-config' : 'text/plain'
  return (
    `Content-Type: ${type}; charset="utf-8"\nMIME-Version: 1.0\n` +
    `Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename="user-data"\n\n${lines}\n\n`
  )
}

function file(name: string, content: unknown): SeedFile {
  return { name, content: `${JSON.stringify(content)}\n` }
}
