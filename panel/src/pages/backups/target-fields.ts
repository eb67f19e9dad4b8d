/** Types of backup targets. Each type has its own fields. */
export const targetTypes = ['local', 'sftp', 's3'] as const
export type TargetType = (typeof targetTypes)[number]

export const fieldsByType = {
  local: ['path'],
  sftp: ['host', 'port', 'user', 'path', 'host_key', 'private_key'],
  s3: ['endpoint', 'region', 'bucket', 'prefix', 'access_key_id', 'secret_access_key', 'ca_certificate'],
} as const satisfies Record<TargetType, readonly string[]>
export type TargetField = (typeof fieldsByType)[TargetType][number]

const optionalFields: readonly TargetField[] = ['port', 'region', 'prefix', 'ca_certificate']
const longFields: readonly TargetField[] = ['private_key', 'ca_certificate']

const secretFields: readonly TargetField[] = ['private_key', 'secret_access_key']

export const isRequired = (field: TargetField): boolean => !optionalFields.includes(field)
/** True if the API never returns the field. */
export const isSecret = (field: TargetField): boolean => secretFields.includes(field)
export const isLong = (field: TargetField): boolean => longFields.includes(field)

/** Returns those fields of a type of backup target that have a value. The port becomes a number. */
export function placeOf(
  type: TargetType,
  form: Readonly<Partial<Record<TargetField, string>>>,
): Readonly<Record<string, string | number>> {
  const filled = fieldsByType[type].filter((field) => (form[field] ?? '') !== '')
  return Object.fromEntries(filled.map((field) => [field, field === 'port' ? Number(form.port) : (form[field] ?? '')]))
}

/**
 * Returns all fields of a changed target, so that a field can be emptied. Secrets are only included if the user has
 * typed new ones, and the port only if it has a value.
 */
export function changedPlace(
  type: TargetType,
  form: Readonly<Partial<Record<TargetField, string>>>,
): Readonly<Record<string, string | number>> {
  const kept = (field: TargetField): boolean => isSecret(field) || field === 'port'
  const emptied = fieldsByType[type].filter((field) => !kept(field)).map((field) => [field, ''] as const)
  return { ...Object.fromEntries<string>(emptied), ...placeOf(type, form) }
}

/** Returns 192 random bits as letters and digits, because these need no escaping in forms and shells. */
export function generatePassword(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(24))
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
}
