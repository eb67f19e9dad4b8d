/*
 * Generates the types of the panel's client from the document that the gateway publishes: panel/src/api/schema.gen.ts.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import openapiTypes, { astToString } from 'openapi-typescript'
import { createApi, type ApiOptions } from '../gateway/api/create-api.js'

const file = resolve(import.meta.dirname, '../panel/src/api/schema.gen.ts')

/** A stand-in for every dependency of the routes: they use none before a request. */
function nobody(): unknown {
  const one: unknown = new Proxy(() => one, {
    get: (_, name) => (name === Symbol.toPrimitive ? () => '' : one),
  })
  return one
}

const parts = new Proxy({}, { get: (_, name) => (name === 'panelDirectory' ? undefined : nobody()) })
const { document } = createApi(parts as ApiOptions)
const written = await readFile(file, 'utf8').catch(() => '')
const types = astToString(await openapiTypes(JSON.stringify(document)))
if (types !== written) await writeFile(file, types)
