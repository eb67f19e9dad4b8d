import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Static, TSchema } from 'typebox'
import { parse } from 'yaml'
import { ConfigError, describeError } from './errors.js'

/** Limits a configuration file's size, so that an operator's mistake cannot hang a daemon. */
const maxConfigBytes = 1024 * 1024

/**
 * Compiles each configuration schema only once. Does not validate the schemas, because compiling their meta-schema
 * would take 50 ms at each start. Does not optimize the code of a check, because this takes longer than running it.
 */
const schemas = new Ajv2020({
  useDefaults: true,
  allErrors: true,
  strict: true,
  allowUnionTypes: true,
  validateSchema: false,
  code: { optimize: false },
})

/**
 * Reads a YAML configuration and fills in the schema's defaults.
 * @throws {ConfigError} for an unreadable file, invalid YAML, an unknown key or an invalid value; names the file and
 * the key
 */
export function readConfig<S extends TSchema>(schema: S, path: string | undefined): Static<S> {
  const raw = path === undefined ? {} : parseFile(path)
  return validateConfig(schema, raw, path ?? 'defaults')
}

export function validateConfig<S extends TSchema>(schema: S, raw: unknown, source: string): Static<S> {
  const value = raw ?? {}
  const validate = schemas.compile<Static<S>>(schema)
  if (validate(value)) return value
  const problems = (validate.errors ?? []).map((e) => {
    const key = [e.instancePath.slice(1).replaceAll('/', '.'), e.params['additionalProperty'] as string | undefined]
    return `${key.filter(Boolean).join('.') || 'file'}: ${e.message ?? 'invalid'}`
  })
  throw new ConfigError(`${source}: ${problems.join('; ')}`)
}

function parseFile(path: string): unknown {
  try {
    const text = readFileSync(path, 'utf8')
    if (text.length > maxConfigBytes) throw new Error('the file is larger than 1 MiB')
    return parse(text, { maxAliasCount: 10 })
  } catch (cause) {
    throw new ConfigError(`${path}: ${describeError(cause)}`)
  }
}
