import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { apiDocument } from '../../scripts/lib/api-document.js'

const page = 'docs/panel-operations.md'
const sources = 'panel/src'
/** A row of the page: the operation, its place in the panel (or why it has no place), and the file that sends it. */
const row = /^\| `([A-Z]+) ([^`]+)` +\| (.+?) +\|(?: `([^`]+)` +\|)?$/gm

interface Place {
  readonly operation: string
  readonly method: string
  readonly path: string
  readonly file: string | undefined
}

function places(): Place[] {
  return [...readFileSync(page, 'utf8').matchAll(row)].map(([, method = '', path = '', , file]) => ({
    operation: `${method} ${path}`,
    method,
    path,
    file,
  }))
}

/** True if a source calls the operation with the typed client, or contains its URL (only for GET). */
function calls(text: string, { method, path }: Place): boolean {
  const literal = path.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  if (new RegExp(String.raw`\bapi\.${method}\(\s*'${literal}'`).test(text)) return true
  const url = `/api/v1${path.replaceAll(/\{\w+\}/g, '{}')}`
  return method === 'GET' && new RegExp(String.raw`${url}(?![\w/-])`).test(text.replaceAll(/\$?\{[^{}]+\}/g, '{}'))
}

describe('the table of operations in the panel', () => {
  const { paths } = apiDocument() as { paths: Readonly<Record<string, object>> }
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )

  it('contains every operation of the OpenAPI document exactly once', () => {
    expect(documented.length).to.be.greaterThan(150)
    expect(
      places()
        .map(({ operation }) => operation)
        .sort(),
    ).to.deep.equal([...documented].sort())
  })

  it('lists only files that call the operation of the same row', () => {
    const wrong = places().filter(({ file }) => file !== undefined && !existsSync(join(sources, file)))
    expect(wrong, 'files that do not exist').to.deep.equal([])
    const silent = places().filter(
      (one) => one.file !== undefined && !calls(readFileSync(join(sources, one.file), 'utf8'), one),
    )
    expect(
      silent.map(({ operation, file }) => `${operation} ${file}`),
      'files without the call',
    ).to.deep.equal([])
  })
})
