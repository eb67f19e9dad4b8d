/*
 * Decodes an answer like Go's encoding/json, but strictly: each field of a struct must exist and have the JSON type of
 * its Go type. Go itself would silently accept null for any of them and continue with a zero value.
 */

export type GoType = 'string' | 'bool' | 'int64' | 'float64' | readonly [GoType] | GoStruct

export interface GoStruct {
  readonly [field: string]: GoType
}

/** Checks `value` against `type`. @throws {Error} with the path of the field, in the words of Go */
export function decodeGo(type: GoType, value: unknown, at = 'data'): void {
  if (typeof type === 'string') return decodeScalar(type, value, at)
  if (Array.isArray(type)) {
    if (!Array.isArray(value)) throw mismatch('[]', value, at)
    for (const [index, entry] of value.entries()) decodeGo(type[0] as GoType, entry, `${at}[${index}]`)
    return
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw mismatch('struct', value, at)
  for (const [field, fieldType] of Object.entries(type as GoStruct))
    decodeGo(fieldType, (value as Record<string, unknown>)[field], `${at}.${field}`)
}

function decodeScalar(type: 'string' | 'bool' | 'int64' | 'float64', value: unknown, at: string): void {
  const fits = {
    string: typeof value === 'string',
    bool: typeof value === 'boolean',
    int64: Number.isSafeInteger(value),
    float64: typeof value === 'number',
  }
  if (!fits[type]) throw mismatch(type, value, at)
}

function mismatch(type: string, value: unknown, at: string): Error {
  return new Error(`json: cannot unmarshal ${JSON.stringify(value)} into Go struct field ${at} of type ${type}`)
}
