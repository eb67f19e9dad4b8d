import { expect } from 'chai'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { writeFileWhole } from './write-whole.js'

describe('a file of any length', () => {
  let directory: string
  beforeEach(() => (directory = mkdtempSync(join(tmpdir(), 'btest-whole-'))))
  afterEach(() => rmSync(directory, { recursive: true, force: true }))
  const progress = { add: () => undefined, end: () => undefined }

  async function* parts(error?: Error): AsyncGenerator<Uint8Array> {
    yield Buffer.from('new ')
    expect(readdirSync(directory).filter((name) => name.endsWith('.part'))).to.have.length(1)
    if (error) throw error
    yield Buffer.from('content')
  }

  it('gets its name when it is complete', async () => {
    await writeFileWhole(join(directory, 'a'), parts(), progress)
    expect(readdirSync(directory)).to.deep.equal(['a'])
    expect(readFileSync(join(directory, 'a'), 'utf8')).to.equal('new content')
  })

  it('leaves an older file unchanged, and leaves no temporary file, if it cannot be completed', async () => {
    writeFileSync(join(directory, 'a'), 'old')
    const failure = await writeFileWhole(join(directory, 'a'), parts(new Error('broken')), progress).catch(
      (error: unknown) => error as Error,
    )
    expect(failure).to.have.property('message', 'broken')
    expect(readdirSync(directory)).to.deep.equal(['a'])
    expect(readFileSync(join(directory, 'a'), 'utf8')).to.equal('old')
  })
})
