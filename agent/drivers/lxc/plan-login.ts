import type { RootChange } from '../../host/guest-root.js'
import type { Login, Machine } from '../contract.js'

/** A login with the password replaced by its crypt(5) hash, as the guest gets it. */
export interface HashedLogin {
  readonly passwordHash?: string
  readonly publicKey?: string
}

type Named = Pick<Machine, 'hostname' | 'resolvers'>

const patterns = {
  hostname: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
  resolver: /^[0-9A-Fa-f.:]{2,45}$/,
  password: /^[^\p{Cc}\u2028\u2029]{1,250}$/u,
  passwordHash: /^\$6\$[./0-9A-Za-z]{1,16}\$[./0-9A-Za-z]{86}$/,
  publicKey: /^[^\p{Cc}\u2028\u2029]{1,16384}$/u,
} as const

/** Plans host name, hosts, resolv.conf and root's login. @throws {Error} when a value is invalid */
export function planFirstBoot(machine: Named, login: HashedLogin): RootChange[] {
  const hostname = oneLine('hostname', machine.hostname)
  const servers = machine.resolvers.map((address) => `nameserver ${oneLine('resolver', address)}`)
  return [
    file('etc/hostname', [hostname]),
    file('etc/hosts', hostsOf(hostname)),
    ...(servers.length === 0 ? [] : [file('etc/resolv.conf', servers)]),
    ...planKey(login.publicKey),
    ...planPassword(login.passwordHash),
  ]
}

/** @throws {Error} when a value is invalid */
export function checkLogin(machine: Named, login: Login): void {
  if (login.password !== undefined) checkPassword(login.password)
  planFirstBoot(machine, login.publicKey === undefined ? {} : { publicKey: login.publicKey })
}

/** @throws {Error} when it is not one line */
export function checkPassword(password: string): void {
  oneLine('password', password)
}

function hostsOf(hostname: string): string[] {
  return [
    '127.0.0.1 localhost',
    `127.0.1.1 ${hostname}`,
    '::1 localhost ip6-localhost ip6-loopback',
    'ff02::1 ip6-allnodes',
    'ff02::2 ip6-allrouters',
  ]
}

function planKey(publicKey: string | undefined): RootChange[] {
  if (publicKey === undefined) return []
  return [
    { kind: 'directory', path: 'root/.ssh', mode: 0o700 },
    { ...file('root/.ssh/authorized_keys', [oneLine('publicKey', publicKey)]), mode: 0o600 },
  ]
}

function planPassword(passwordHash: string | undefined): RootChange[] {
  if (passwordHash === undefined) return []
  return [{ kind: 'password', hash: oneLine('passwordHash', passwordHash) }]
}

function file(path: string, lines: readonly string[]): Extract<RootChange, { kind: 'file' }> {
  return { kind: 'file', path, mode: 0o644, content: lines.map((line) => `${line}\n`).join('') }
}

function oneLine(what: keyof typeof patterns, value: string): string {
  // The message does not contain the value, which may be a password.
  if (!patterns[what].test(value)) throw new Error(`${what} is not one line of the expected form`)
  return value
}
