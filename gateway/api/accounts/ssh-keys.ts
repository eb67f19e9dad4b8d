import { Type, type Static } from 'typebox'
import { sshKeyFingerprint } from '../../../shared/ssh-public-key.js'
import type { TimeFormat } from '../../../shared/time.js'
import { maxSshKeys, type SshKey } from '../../accounts/ssh-keys.js'
import { trimmed } from '../../http/normalize.js'
import { keyNamePattern } from '../../http/pattern-rules.js'
import { route, type Route } from '../../http/route.js'
import { TimeSchema } from '../../http/schema.js'
import { sessionOf } from './login-place.js'
import type { AccountDeps } from './own-account.js'

const NameSchema = Type.String({
  ...trimmed,
  minLength: 1,
  maxLength: 64,
  pattern: keyNamePattern,
  description: 'Name of the key, unique within the account. Upper and lower case are not distinguished.',
})
const PublicKeySchema = Type.String({
  ...trimmed,
  minLength: 1,
  maxLength: 4096,
  description:
    'Public key: one line in the format of OpenSSH, without options; Ed25519, ECDSA, RSA of at least 2048 bits, or a security key. Certificates and DSA keys are refused.',
})
const RowSchema = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    public_key: Type.String({ description: 'Send it as `ssh_public_key` when you create or reinstall a container.' }),
    fingerprint: Type.String({ description: 'SHA-256 fingerprint, as `ssh-keygen -l` shows it: `SHA256:…`.' }),
    created_at: TimeSchema,
  },
  { title: 'SshKey' },
)

const own = { scope: 'session', bound: 'same', subUser: 'allowed', tag: 'Accounts' } as const

export function sshKeyRoutes(deps: AccountDeps): Route[] {
  return [listRoute(deps), createRoute(deps), deleteRoute(deps)]
}

function listRoute({ accounts: { sessions, sshKeys }, time }: AccountDeps): Route {
  return route({
    ...own,
    method: 'GET',
    path: '/account/ssh-keys',
    name: 'listSshKeys',
    summary: 'Lists the caller’s own stored SSH public keys, in the order of their creation',
    data: Type.Array(RowSchema),
    errors: ['not_found'],
    handle: async (context) => {
      const { account } = await sessionOf(sessions, context)
      return { data: (await sshKeys.list(account.id)).map((key) => sshKeyRow(key, time)) }
    },
  })
}

function createRoute({ accounts: { sessions, sshKeys }, time }: AccountDeps): Route {
  return route({
    ...own,
    method: 'POST',
    path: '/account/ssh-keys',
    name: 'createSshKey',
    confirmed: true,
    audit: 'ssh_key.create',
    summary: `Stores an SSH public key in the caller’s own account, at most ${maxSshKeys}. A repeated request with the same name and key changes nothing`,
    body: Type.Object({ name: NameSchema, public_key: PublicKeySchema }, { title: 'NewSshKey' }),
    example: {
      name: 'laptop',
      public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPkTgBmBslAylqy1Euc9NXYRE2bngfNMIfdCPKNNFo4Y ada@laptop',
    },
    data: RowSchema,
    statuses: [201],
    errors: ['not_found', 'name_conflict', 'ssh_key_limit_reached'],
    handle: async (context) => {
      const { account } = await sessionOf(sessions, context)
      const { name, public_key: publicKey } = context.body
      context.audit({ target: account.username, detail: name })
      const key = await sshKeys.add(account.id, { name, publicKey })
      context.audit({ detail: describe(key) })
      return { status: 201, message: 'SSH key stored', data: sshKeyRow(key, time) }
    },
  })
}

function deleteRoute({ accounts: { sessions, sshKeys } }: AccountDeps): Route {
  return route({
    ...own,
    method: 'DELETE',
    path: '/account/ssh-keys/{id}',
    name: 'deleteSshKey',
    audit: 'ssh_key.delete',
    summary: 'Deletes one of the caller’s own stored SSH public keys. Containers that have it keep it',
    params: Type.Object({ id: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) }),
    errors: ['not_found'],
    handle: async (context) => {
      const { account } = await sessionOf(sessions, context)
      context.audit({ target: account.username, detail: `id ${context.params.id}` })
      const key = await sshKeys.remove(account.id, context.params.id)
      context.audit({ detail: describe(key) })
      return { message: 'SSH key deleted' }
    },
  })
}

function sshKeyRow({ id, name, publicKey, createdAtMs }: SshKey, time: TimeFormat): Static<typeof RowSchema> {
  const fingerprint = sshKeyFingerprint(publicKey)
  return { id, name, public_key: publicKey, fingerprint, created_at: time.format(createdAtMs) }
}

function describe({ id, name, publicKey }: SshKey): string {
  return `id ${id}, ${name}, ${sshKeyFingerprint(publicKey)}`
}
