import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { checkBackupTarget } from '../../shared/backup-target-rules.js'
import { BerthError, invalidField } from '../../shared/errors.js'

export const targetTypes = ['local', 'sftp', 's3'] as const
export type TargetType = (typeof targetTypes)[number]

/** Fields of a backup target in the API. Each type of target uses some of them. */
export interface TargetFields {
  readonly name?: string
  readonly type?: TargetType
  readonly path?: string
  readonly host?: string
  readonly port?: number
  readonly user?: string
  readonly private_key?: string
  readonly host_key?: string
  readonly endpoint?: string
  readonly region?: string
  readonly bucket?: string
  readonly prefix?: string
  readonly access_key_id?: string
  readonly secret_access_key?: string
  readonly ca_certificate?: string
  readonly encryption_password?: string
  readonly verify_percent?: number
}

/** Fields that the API never returns. */
export interface TargetSecrets {
  readonly encryption_password: string
  readonly private_key: string
  readonly secret_access_key: string
}

const defaultPort = 22
const defaultVerifyPercent = 100

/** @throws {BerthError} `missing_field`, `invalid_field` */
export function planTarget(id: string, fields: TargetFields): BackupTarget {
  const target: BackupTarget = {
    id,
    name: need(fields, 'name').trim(),
    place: placeOf(fields),
    password: need(fields, 'encryption_password'),
    verifyPercent: fields.verify_percent ?? defaultVerifyPercent,
  }
  checkBackupTarget(target)
  return target
}

/**
 * Plans a change. Absent fields and empty secrets stay unchanged.
 * @throws {BerthError} `invalid_field`, also for a new type or password, because the existing backups would be lost
 */
export function planTargetChange(before: BackupTarget, change: TargetFields): BackupTarget {
  const known = fieldsOf(before)
  for (const field of ['type', 'encryption_password'] as const)
    if (change[field] !== undefined && change[field] !== known[field])
      throw invalidField(field, `${field}: cannot be changed: add another target instead`)
  return planTarget(before.id, { ...known, ...withoutEmptySecrets(change) })
}

function withoutEmptySecrets(change: TargetFields): TargetFields {
  const secrets: readonly string[] = ['private_key', 'secret_access_key']
  return Object.fromEntries(Object.entries(change).filter(([field, value]) => value !== '' || !secrets.includes(field)))
}

function placeOf(fields: TargetFields): NonNullable<BackupTarget['place']> {
  const type = need(fields, 'type')
  if (type === 'local') return { $case: 'local', value: { path: need(fields, 'path') } }
  if (type === 'sftp')
    return {
      $case: 'sftp',
      value: {
        host: need(fields, 'host'),
        port: fields.port ?? defaultPort,
        user: need(fields, 'user'),
        path: need(fields, 'path'),
        privateKey: need(fields, 'private_key').replaceAll('\r\n', '\n'),
        hostKey: need(fields, 'host_key'),
      },
    }
  return {
    $case: 's3',
    value: {
      endpoint: need(fields, 'endpoint').replace(/\/$/, ''),
      region: fields.region ?? '',
      bucket: need(fields, 'bucket'),
      prefix: fields.prefix ?? '',
      accessKeyId: need(fields, 'access_key_id'),
      secretAccessKey: need(fields, 'secret_access_key'),
      caCertificate: (fields.ca_certificate ?? '').replaceAll('\r\n', '\n'),
    },
  }
}

function need<Field extends keyof TargetFields>(fields: TargetFields, field: Field): NonNullable<TargetFields[Field]> {
  const value = fields[field]
  if (value === undefined || value === null || value === '')
    throw new BerthError('invalid', 'missing_field', `${field}: is required`, { field })
  return value
}

/** Returns all fields of a target, including its secrets. */
export function fieldsOf(target: BackupTarget): TargetFields & { readonly type: TargetType } {
  const { name, password, verifyPercent, place } = target
  const common = { name, encryption_password: password, verify_percent: verifyPercent }
  switch (place?.$case) {
    case 'sftp': {
      const { privateKey, hostKey, ...rest } = place.value
      return { ...common, type: 'sftp', ...rest, private_key: privateKey, host_key: hostKey }
    }
    case 's3': {
      const { accessKeyId, secretAccessKey, caCertificate, ...rest } = place.value
      const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey, ca_certificate: caCertificate }
      return { ...common, type: 's3', ...rest, ...keys }
    }
    case 'local':
    case undefined:
      return { ...common, type: 'local', path: place?.value.path ?? '' }
  }
}

/** Separates the visible fields of a target from its secrets. */
export function partSecrets(fields: TargetFields): {
  readonly shown: Omit<TargetFields, keyof TargetSecrets>
  readonly secrets: TargetSecrets
} {
  const { encryption_password = '', private_key = '', secret_access_key = '', ...shown } = fields
  return { shown, secrets: { encryption_password, private_key, secret_access_key } }
}
