import type { RootChange } from '../../host/guest/guest-root.js'
import { planFirstBoot, planOwnLine, resolvConfOf, textOf, type HashedLogin, type NameSettings } from './plan-login.js'

/** New SSH host keys by file name. They replace the original's keys in a copy. */
export type HostKeys = Readonly<Record<string, { readonly privateKey: string; readonly publicKey: string }>>

export interface NewIdentity {
  /** New machine id, in the format of machine-id(5). */
  readonly machineId: string
  readonly hostKeys: HostKeys
}

export interface CopiedGuest {
  /** Undefined: the copy keeps the identity of the original. */
  readonly identity: NewIdentity | undefined
  /** Name servers that the host assigned to the copied guest. Undefined: not known. */
  readonly resolvers?: readonly string[]
}

/**
 * Plans the changes that turn a copy of another guest's files into this guest's files: name, login, machine id and SSH
 * host keys. If this guest has a login, the other guest's login stops working in the copy. Other lines of /etc/hosts
 * and name servers that the other guest's owner has set stay unchanged.
 * @throws {Error} if a value is invalid
 */
export function planCopy(machine: NameSettings, login: HashedLogin, original: CopiedGuest): RootChange[] {
  const changes = planFirstBoot(machine, login)
  const { identity } = original
  return [
    ...changes.flatMap((change) => adapt(change, machine, original)),
    ...planOtherLogins(login),
    ...(identity ? planIdentity(identity) : []),
  ]
}

function adapt(change: RootChange, machine: NameSettings, { resolvers }: CopiedGuest): RootChange[] {
  if (change.kind !== 'file') return [change]
  const { path, content } = change
  if (path === 'etc/hosts') return [planOwnLine(machine)]
  if (path !== 'etc/resolv.conf' || !resolvers) return [change]
  return [{ kind: 'unchanged', path, old: textOf(resolvConfOf(resolvers)), content }]
}

/** Removes the SSH keys of the copied guest's owner if the new login has a password but no keys. */
function planOtherLogins({ passwordHash, keys }: HashedLogin): RootChange[] {
  return passwordHash !== undefined && keys.length === 0 ? [{ kind: 'key', content: '' }] : []
}

function planIdentity({ machineId, hostKeys }: NewIdentity): RootChange[] {
  return [
    { kind: 'existing', path: 'etc/machine-id', mode: 0o444, content: `${machineId}\n` },
    { kind: 'remove', path: 'var/lib/dbus/machine-id' },
    ...Object.entries(hostKeys).flatMap(([name, { privateKey, publicKey }]): RootChange[] => [
      { kind: 'existing', path: `etc/ssh/${name}`, mode: 0o600, content: privateKey },
      { kind: 'existing', path: `etc/ssh/${name}.pub`, mode: 0o644, content: publicKey },
    ]),
  ]
}
