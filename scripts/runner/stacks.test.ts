import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { transformSync } from 'esbuild'
import { mapPlaces } from './stacks.js'

describe('places in compiled files', () => {
  let directory = ''
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-stacks.'))
    const text = '\n\ninterface Unused { a: 1 }\nexport function fail(): never {\n  throw new Error("x")\n}\n'
    const { code, map } = transformSync(text, { loader: 'ts', sourcemap: true, sourcefile: 'src/fail.ts' })
    writeFileSync(join(directory, 'fail.js'), code)
    writeFileSync(join(directory, 'fail.js.map'), map)
  })
  after(() => rmSync(directory, { recursive: true }))

  it('become places in the sources', () => {
    const text = `Error: x\n    at fail (file://${directory}/fail.js:2:9)\n    at node:internal/x:1:2`
    expect(mapPlaces(text)).to.equal(`Error: x\n    at fail (${directory}/src/fail.ts:5:9)\n    at node:internal/x:1:2`)
  })

  it('stay if the file has no map', () => {
    expect(mapPlaces('at file:///nowhere/a.js:1:2')).to.equal('at file:///nowhere/a.js:1:2')
  })
})
