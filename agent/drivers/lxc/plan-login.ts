import type { Login, Machine } from '../contract.js'

/** What the guest's script reads on standard input, one line each; see guest-script.ts. */
export function planLoginInput(machine: Pick<Machine, 'hostname' | 'resolvers'>, login: Login): string {
  const lines = [
    oneLine('hostname', machine.hostname, /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
    machine.resolvers.map((address) => oneLine('resolver', address, /^[0-9A-Fa-f.:]{2,45}$/)).join(' '),
    login.password === undefined ? '' : `=${oneLine('password', login.password, printable)}`,
    login.publicKey === undefined ? '' : `=${oneLine('publicKey', login.publicKey, printable)}`,
  ]
  return lines.map((line) => `${line}\n`).join('')
}

// eslint-disable-next-line no-control-regex -- control characters are what is refused
const printable = /^[^\x00-\x1f\x7f\u0080-\u009f\u2028\u2029]{1,16384}$/

function oneLine(what: string, value: string, pattern: RegExp): string {
  // The value itself stays out of the message: it may be a password.
  if (!pattern.test(value)) throw new Error(`${what} is not one line of the expected form`)
  return value
}
