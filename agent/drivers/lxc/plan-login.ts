import type { RootChange } from '../../host/guest/guest-root.js'
import { keysOf, noPassword, shadowFieldPattern } from '../common/shadow-field.js'
import type { Login, Machine } from '../machine.js'

/** A login as the guest gets it: with the crypt(5) hash of the password instead of the password. */
export interface HashedLogin {
  readonly passwordHash?: string
  readonly keys: readonly string[]
}

export type NameSettings = Pick<Machine, 'hostname' | 'fqdn' | 'resolvers'>

/** Address of the guest's own name in /etc/hosts. */
const ownAddress = '127.0.1.1'

const patterns = {
  hostname: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
  fqdn: /^[a-z0-9][a-z0-9.-]{0,252}$/,
  resolver: /^[0-9A-Fa-f.:]{2,45}$/,
  password: /^[^\p{Cc}\u2028\u2029]{1,250}$/u,
  passwordHash: shadowFieldPattern,
  publicKey: /^[^\p{Cc}\u2028\u2029]{1,16384}$/u,
} as const

/** Plans the files of host name, name resolution and root's login. @throws {Error} if a value is invalid */
export function planFirstBoot(machine: NameSettings, login: HashedLogin): RootChange[] {
  const hostname = oneLine('hostname', machine.hostname)
  const servers = resolvConfOf(machine.resolvers)
  return [
    file('etc/hostname', [hostname]),
    file('etc/hosts', hostsOf(machine)),
    ...(servers.length === 0 ? [] : [file('etc/resolv.conf', servers)]),
    ...planKeys(login.keys),
    ...planPassword(login),
  ]
}

/** Plans the change of the host name in a guest whose files may have changed since its first boot. */
export function planHostname(machine: NameSettings): RootChange[] {
  return [file('etc/hostname', [oneLine('hostname', machine.hostname)]), planOwnLine(machine)]
}

/** Plans the change of the guest's own line in /etc/hosts, which begins with `ownAddress`. Keeps all other lines. */
export function planOwnLine(machine: NameSettings): RootChange {
  const lines = hostsOf(machine)
  const line = lines.find((one) => one.startsWith(ownAddress))!
  return { kind: 'line', path: 'etc/hosts', first: ownAddress, line, content: textOf(lines) }
}

/** Checks the names and the login of a guest. @throws {Error} if a value is invalid */
export function checkLogin(machine: NameSettings, login: Login): void {
  if (login.password !== undefined) checkPassword(login.password)
  planFirstBoot(machine, { keys: keysOf(login) })
}

/** Checks a password. @throws {Error} if it is not one line */
export function checkPassword(password: string): void {
  oneLine('password', password)
}

/** Returns the lines of /etc/resolv.conf. @throws {Error} if an address is invalid */
export function resolvConfOf(resolvers: readonly string[]): string[] {
  return resolvers.map((address) => `nameserver ${oneLine('resolver', address)}`)
}

/** Returns the lines of /etc/hosts. `hostname -f` shows the first name of an address (hostname(1)). */
function hostsOf({ hostname, fqdn }: NameSettings): string[] {
  const names = fqdn === undefined ? [hostname] : [oneLine('fqdn', fqdn), hostname]
  return [
    '127.0.0.1 localhost',
    `${ownAddress} ${names.join(' ')}`,
    '::1 localhost ip6-localhost ip6-loopback',
    'ff02::1 ip6-allnodes',
    'ff02::2 ip6-allrouters',
  ]
}

function planKeys(keys: readonly string[]): RootChange[] {
  if (keys.length === 0) return []
  return [{ kind: 'key', content: textOf(keys.map((key) => oneLine('publicKey', key))) }]
}

/**
 * Plans root's password. For a login with only a key, `*` disables the image's own password. `!` would lock the
 * account, and an sshd without PAM would then refuse keys, too.
 */
function planPassword({ passwordHash, keys }: HashedLogin): RootChange[] {
  const hash = passwordHash ?? (keys.length > 0 ? noPassword : undefined)
  return hash === undefined ? [] : [{ kind: 'password', hash: oneLine('passwordHash', hash) }]
}

function file(path: string, lines: readonly string[]): Extract<RootChange, { kind: 'file' }> {
  return { kind: 'file', path, mode: 0o644, content: textOf(lines) }
}

export function textOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}

export function oneLine(what: keyof typeof patterns, value: string): string {
  // The message does not contain the value, which can be a password.
  if (!patterns[what].test(value)) throw new Error(`${what} is not a single line of the expected format`)
  return value
}
