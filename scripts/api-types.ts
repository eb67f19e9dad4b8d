/* Generates the types of the API, client/schema.gen.ts, from the gateway's OpenAPI document. */
import { readFile, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import openapiTypes, { astToString } from 'openapi-typescript'
import { apiDocument } from './lib/api-document.js'

const file = resolve(import.meta.dirname, '../client/schema.gen.ts')
const written = await readFile(file, 'utf8').catch(() => '')
const types = astToString(await openapiTypes(JSON.stringify(apiDocument())))
if (types !== written) await writeFile(file, types)
