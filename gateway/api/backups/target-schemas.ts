import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import { targetTypes } from '../../backups/plan-target.js'
import type { TargetRecord } from '../../backups/targets.js'
import { oneOf, TimeSchema } from '../../http/schema.js'
import { trimmed } from '../../http/normalize.js'

export const TargetTypeSchema = oneOf(
  targetTypes,
  '`local`: a directory on each host, for example a mounted network file system. `sftp`: an SFTP server. `s3`: an S3-compatible service.',
)

const word = (description: string, maxLength = 512) => Type.String({ ...trimmed, maxLength, description })
const secret = (description: string) =>
  Type.String({ maxLength: 16_384, writeOnly: true, description: `${description} It is never returned.` })

const places = {
  path: word(
    'Directory that contains the backups, for `local` and `sftp`. A `local` directory must exist on each host.',
  ),
  host: word('Host name or IP address of the server, for `sftp`.', 253),
  port: Type.Integer({ minimum: 1, maximum: 65_535, description: 'Port of the server, for `sftp`. Default: 22.' }),
  user: word('User name on the server, for `sftp`.', 64),
  host_key: word(
    'Public host key of the server, for `sftp`: type and base64 data, as printed by `ssh-keyscan`.',
    16_384,
  ),
  endpoint: word('URL of the service, for `s3`: `http://` or `https://`, a host, and an optional port.'),
  region: word('Region of the bucket, for `s3`. It may be empty.', 64),
  bucket: word('Name of the bucket, for `s3`.', 63),
  prefix: word(
    'Only for `s3`: folders with which the name of every object begins, such as `berth/host1`. Empty: the objects have no folder.',
  ),
  access_key_id: word('Access key id, for `s3`.', 256),
  ca_certificate: Type.String({
    maxLength: 16_384,
    description:
      'PEM certificate of the authority that signed the server’s certificate, for `s3`. Empty: the certificate must be signed by an authority that the hosts trust.',
  }),
}

const figures = {
  verify_percent: Type.Integer({
    minimum: 0,
    maximum: 100,
    description:
      'Percentage of a container’s stored data that is read back and verified after each backup. Default: 100. 0: only the existence of the data is checked.',
  }),
}

const secrets = {
  private_key: secret('Private key for `sftp`, in OpenSSH or PEM format, without a passphrase.'),
  secret_access_key: secret('Secret access key, for `s3`.'),
  encryption_password: secret(
    'Password that encrypts the backups. At least 12 characters. Without it nobody can read the backups, and it cannot be changed later.',
  ),
}

const NameSchema = word('Unique name of the backup target. Upper and lower case are not distinguished.', 63)
const optional = Object.fromEntries(
  Object.entries({ ...places, ...figures, ...secrets }).map(([field, schema]) => [field, Type.Optional(schema)]),
) as {
  [Field in keyof (typeof places & typeof figures & typeof secrets)]: ReturnType<
    typeof Type.Optional<(typeof places & typeof figures & typeof secrets)[Field]>
  >
}

export const CreateTargetSchema = Type.Object(
  { name: NameSchema, type: TargetTypeSchema, ...optional, encryption_password: secrets.encryption_password },
  { title: 'NewBackupTarget' },
)

export const ChangeTargetSchema = Type.Object(
  {
    name: Type.Optional(NameSchema),
    type: Type.Optional(TargetTypeSchema),
    ...optional,
    encryption_password: Type.Optional(secret('Present password of the target, or absent. It cannot be changed.')),
  },
  { title: 'BackupTargetChange' },
)

export const TargetRowSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    type: TargetTypeSchema,
    path: Type.String(),
    host: Type.String(),
    port: Type.Integer(),
    user: Type.String(),
    host_key: Type.String(),
    endpoint: Type.String(),
    region: Type.String(),
    bucket: Type.String(),
    prefix: Type.String(),
    access_key_id: Type.String(),
    ca_certificate: Type.String(),
    verify_percent: Type.Integer(),
    backups: Type.Integer({ description: 'Number of backups on the target whose containers still exist.' }),
    created_at: TimeSchema,
    updated_at: TimeSchema,
  },
  { title: 'BackupTarget' },
)
export type TargetRow = Static<typeof TargetRowSchema>

/** Empty values for the fields that a type of target does not have. */
const blank = {
  path: '',
  host: '',
  port: 0,
  user: '',
  host_key: '',
  endpoint: '',
  region: '',
  bucket: '',
  prefix: '',
  access_key_id: '',
  ca_certificate: '',
  verify_percent: 0,
}

/** @param backups number of backups that the fleet's containers have at this target */
export function targetRow(
  { id, shown, createdAtMs, changedAtMs }: TargetRecord,
  { backups, time }: { readonly backups: number; readonly time: TimeFormat },
): TargetRow {
  const times = { created_at: time.format(createdAtMs), updated_at: time.format(changedAtMs) }
  return { id, ...blank, ...shown, backups, ...times }
}
