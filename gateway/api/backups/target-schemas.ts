import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { targetTypes } from '../../backups/plan-target.js'
import type { TargetRecord } from '../../backups/targets.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { trimmed } from '../../http/normalize.js'

export const TargetTypeSchema = oneOf(
  targetTypes,
  '`local`: a folder of each host, as of a network file system; `sftp`; `s3`: anything that speaks S3.',
)

const word = (description: string, maxLength = 512) => Type.String({ ...trimmed, maxLength, description })
const secret = (description: string) =>
  Type.String({ maxLength: 16_384, writeOnly: true, description: `${description} Never shown.` })

const places = {
  path: word('Of local and sftp: the folder, which is there already where it is local.'),
  host: word('Of sftp.', 253),
  port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'Of sftp; default 22.' }),
  user: word('Of sftp.', 64),
  host_key: word('Of sftp: the server’s public key, as `ssh-keyscan` tells it: type and base64.', 16_384),
  endpoint: word('Of s3: http:// or https://, host, and perhaps a port.'),
  region: word('Of s3; may be empty.', 64),
  bucket: word('Of s3.', 63),
  prefix: word('Of s3: folders before every object; may be empty.'),
  access_key_id: word('Of s3.', 256),
  ca_certificate: Type.String({
    maxLength: 16_384,
    description: 'Of s3: PEM of who signed the server’s certificate; empty: those that the hosts trust.',
  }),
}

const figures = {
  verify_percent: Type.Integer({
    minimum: 0,
    maximum: 100,
    description:
      'How much of what is kept of a container is read back after each of its backups; default 100. 0: only whether it is there.',
  }),
}

const secrets = {
  private_key: secret('Of sftp: OpenSSH or PEM, without a passphrase.'),
  secret_access_key: secret('Of s3.'),
  encryption_password: secret(
    'Encrypts the backups. At least 12 characters. Nobody can read the backups without it, and it cannot be changed later.',
  ),
}

const NameSchema = word('Unique, case aside.', 63)
const optional = Object.fromEntries(
  Object.entries({ ...places, ...figures, ...secrets }).map(([field, schema]) => [
    field,
    Type.Optional(schema),
  ]),
) as {
  [Field in keyof (typeof places & typeof figures & typeof secrets)]: ReturnType<
    typeof Type.Optional<(typeof places & typeof figures & typeof secrets)[Field]>
  >
}

export const CreateTargetSchema = Type.Object(
  {
    ...{ name: NameSchema, type: TargetTypeSchema, ...optional },
    encryption_password: secrets.encryption_password,
  },
  { title: 'NewBackupTarget' },
)

export const ChangeTargetSchema = Type.Object(
  { name: Type.Optional(NameSchema), type: Type.Optional(TargetTypeSchema), ...optional },
  { title: 'BackupTargetChange' },
)

export const TargetRowSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    type: TargetTypeSchema,
    ...{ path: Type.String(), host: Type.String(), port: Type.Integer(), user: Type.String() },
    host_key: Type.String(),
    ...{ endpoint: Type.String(), region: Type.String(), bucket: Type.String(), prefix: Type.String() },
    access_key_id: Type.String(),
    ca_certificate: Type.String(),
    verify_percent: Type.Integer(),
    backups: Type.Integer({ description: 'Of containers that there are now.' }),
    created_at: TimeSchema,
    updated_at: TimeSchema,
  },
  { title: 'BackupTarget' },
)
export type TargetRow = Static<typeof TargetRowSchema>

/** Of the other types. */
const blank = {
  ...{ path: '', host: '', port: 0, user: '', host_key: '' },
  ...{ endpoint: '', region: '', bucket: '', prefix: '', access_key_id: '', ca_certificate: '' },
  verify_percent: 0,
}

/** @param backups that the fleet's containers have there */
export function targetRow(
  { id, shown, createdAtMs, changedAtMs }: TargetRecord,
  { backups, time }: { readonly backups: number; readonly time: TimeFormat },
): TargetRow {
  const times = { created_at: time.format(createdAtMs), updated_at: time.format(changedAtMs) }
  return { id, ...blank, ...shown, backups, ...times }
}
