import type { Login, Machine } from '../contract.js'

/** A login as the guest is told it: the password never is, only its crypt(5) hash. */
export interface HashedLogin {
  readonly passwordHash?: string
  readonly publicKey?: string
}

const patterns = {
  hostname: /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
  resolver: /^[0-9A-Fa-f.:]{2,45}$/,
  // eslint-disable-next-line no-control-regex -- control characters are what is refused
  password: /^[^\x00-\x1f\x7f\u0080-\u009f\u2028\u2029]{1,250}$/,
  passwordHash: /^\$6\$[./0-9A-Za-z]{1,16}\$[./0-9A-Za-z]{86}$/,
  // eslint-disable-next-line no-control-regex -- control characters are what is refused
  publicKey: /^[^\x00-\x1f\x7f\u0080-\u009f\u2028\u2029]{1,16384}$/,
} as const

/** What the guest's script reads on standard input, one line each; see guest-script.ts. */
export function planLoginInput(machine: Pick<Machine, 'hostname' | 'resolvers'>, login: HashedLogin): string {
  const lines = [
    oneLine('hostname', machine.hostname),
    machine.resolvers.map((address) => oneLine('resolver', address)).join(' '),
    login.passwordHash === undefined ? '' : oneLine('passwordHash', login.passwordHash),
    login.publicKey === undefined ? '' : `=${oneLine('publicKey', login.publicKey)}`,
  ]
  return lines.map((line) => `${line}\n`).join('')
}

/** @throws before anything is done in the guest */
export function checkLogin(machine: Pick<Machine, 'hostname' | 'resolvers'>, login: Login): void {
  if (login.password !== undefined) oneLine('password', login.password)
  planLoginInput(machine, login.publicKey === undefined ? {} : { publicKey: login.publicKey })
}

function oneLine(what: keyof typeof patterns, value: string): string {
  // The value itself stays out of the message: it may be a password.
  if (!patterns[what].test(value)) throw new Error(`${what} is not one line of the expected form`)
  return value
}
