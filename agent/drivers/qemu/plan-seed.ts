import { findForm } from '../../../shared/first-boot/forms.js'
import { FirstBootFault } from '../../../shared/first-boot/fault.js'
import { isMime, partsOfMime, type MimePart } from '../../../shared/first-boot/mime.js'
import { keysOf, noPassword } from '../common/shadow-field.js'
import type { Machine, MachineNic } from '../machine.js'

/** Data for the first boot of a guest's disk. It is stored in the volume, so that snapshots include it. */
export interface Instance {
  /** Instance id for cloud-init. If cloud-init does not know the id, it sets up the system again. */
  readonly id: string
  /** crypt(5) hash of root's password. */
  readonly passwordHash?: string
  /** Encrypted password, for a system that accepts no hash. */
  readonly sealedPassword?: string
  readonly publicKey?: string
  /** Lines of `authorized_keys`, used instead of `publicKey`. */
  readonly authorizedKeys?: readonly string[]
  /** The customer's own cloud-init data. */
  readonly userData?: string
  /** A password that could not be set in the running guest. A boot sets it, but only once for each `serial`. */
  readonly reset?: { readonly serial: string; readonly passwordHash: string }
}

/** Content of the CD that configures a guest's system. */
export interface Seed {
  readonly label: 'cidata' | 'config-2'
  readonly files: readonly SeedFile[]
}

export interface SeedFile {
  readonly name: string
  readonly content: string
}

type SeedIdentity = Pick<Machine, 'hostname' | 'fqdn' | 'resolvers' | 'nic'>

/**
 * Plans the files of a NoCloud seed. The files are JSON, so that no value can change their structure. JSON is valid
 * YAML. Source: cloudinit.readthedocs.io, NoCloud
 */
export function planSeed(machine: SeedIdentity, instance: Instance): SeedFile[] {
  return [
    file('meta-data', { 'instance-id': instance.id, 'local-hostname': machine.fqdn ?? machine.hostname }),
    file('network-config', planNetwork(machine.nic, machine.resolvers)),
    { name: 'user-data', content: planUserData(instance) },
  ]
}

/**
 * Plans a network config of version 2. It uses only forms that netplan, networkd and eni all render correctly. Gateways
 * have their own keys, because a route to `::/0` would become `::/64`, and `to: default` crashes networkd's renderer.
 */
export function planNetwork(nic: MachineNic, resolvers: readonly string[]): unknown {
  const { mac, ipv4, prefixLength, gateway, ipv6Addresses, gateway6 } = nic
  const eth0 = {
    match: { macaddress: mac },
    'set-name': 'eth0',
    dhcp4: false,
    dhcp6: false,
    'accept-ra': false,
    'link-local': ['ipv6'],
    addresses: [`${ipv4}/${prefixLength}`, ...ipv6Addresses.map((address) => `${address}/128`)],
    gateway4: gateway,
    ...(ipv6Addresses.length > 0 ? { gateway6 } : {}),
    nameservers: { addresses: resolvers, search: [] },
  }
  return { version: 2, ethernets: { eth0 } }
}

/** Rules by which cloud-init merges Berth's settings into the customer's: appends to lists, and replaces no value. */
const merge = [
  { name: 'list', settings: ['append'] },
  { name: 'dict', settings: ['no_replace', 'recurse_list'] },
]

/** Plans Berth's settings. Does not lock root's account, because an sshd without PAM would then refuse keys. */
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
    // Applies changed addresses at every boot, not only at a first boot (`boot-new-instance`).
    updates: { network: { when: ['boot-new-instance', 'boot'] } },
    // Adds a line for the host name to /etc/hosts and keeps the other lines. `hostname -f` would fail without it.
    manage_etc_hosts: 'localhost',
    prefer_fqdn_over_hostname: false,
    disable_root: false,
    ...(passwordHash === undefined ? {} : { ssh_pwauth: true }),
    users: [root],
    ...(reset === undefined ? {} : { bootcmd: [planReset(reset)] }),
  }
}

/** Plans a command that sets the password only once, because cloud-init-per leaves a mark in the guest. */
function planReset({ serial, passwordHash }: NonNullable<Instance['reset']>): string[] {
  return ['cloud-init-per', 'once', `berth-password-${serial}`, 'usermod', '-p', passwordHash, 'root']
}

/**
 * Returns the user data: the customer's parts, then Berth's. The customer's parts are base64, which cannot contain a
 * boundary. Source: cloudinit.readthedocs.io, MIME multi-part archive
 */
export function planUserData(instance: Instance): string {
  const own = part('text/cloud-config', `#cloud-config\n${JSON.stringify(planConfig(instance))}\n`)
  const customers = instance.userData === undefined ? [] : customersParts(instance.userData)
  const boundary = boundaryFor(customers.join(''))
  return [
    `Content-Type: multipart/mixed; boundary="${boundary}"\nMIME-Version: 1.0\n\n`,
    ...[...customers, own].map((text) => `--${boundary}\n${text}`),
    `--${boundary}--\n`,
  ].join('')
}

/** Returns a boundary that the text does not contain, so that the text cannot end its part. */
function boundaryFor(text: string): string {
  let boundary = 'BERTH-SEED'
  for (let n = 1; text.includes(boundary); n++) boundary = `BERTH-SEED-${n}`
  return boundary
}

function part(type: string, text: string): string {
  return `Content-Type: ${type}; charset="utf-8"\nMIME-Version: 1.0\n\n${text}\n`
}

/**
 * Returns the customer's data as parts of Berth's MIME message. A MIME message is split into its parts, because
 * cloud-init ignores the parts of a nested message. Invalid data, which an earlier version accepted, becomes one part.
 */
function customersParts(userData: string): string[] {
  try {
    if (isMime(userData)) return partsOfMime(userData).map(encodedPart)
  } catch (error) {
    if (!(error instanceof FirstBootFault)) throw error
  }
  const type = `Content-Type: ${findForm(userData) ?? 'text/plain'}; charset="utf-8"`
  const headers = [type, 'Content-Disposition: attachment; filename="user-data"']
  return [encodedPart({ headers, content: Buffer.from(userData) })]
}

function encodedPart({ headers, content }: MimePart): string {
  const lines = content.toString('base64').replace(/.{76}/g, '$&\n')
  const all = [...headers, 'MIME-Version: 1.0', 'Content-Transfer-Encoding: base64']
  return `${all.join('\n')}\n\n${lines}\n\n`
}

function file(name: string, content: unknown): SeedFile {
  return { name, content: `${JSON.stringify(content)}\n` }
}
