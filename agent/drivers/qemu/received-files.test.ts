import { expect } from 'chai'
import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { refuseLarge } from './received-files.js'

const [mib, tib] = [1024 ** 2, 1024 ** 4]

describe('the check of the files in a volume from another host', () => {
  let volume: string
  beforeEach(async () => {
    volume = await mkdtemp(join(tmpdir(), 'btest-received-'))
    for (const name of ['disk.raw', 'vars.fd']) await writeFile(join(volume, name), '1234')
  })
  afterEach(() => rm(volume, { recursive: true, force: true }))

  it('accepts a disk of exactly the allowed size', () => refuseLarge(volume, 4))

  for (const [name, file, bytes] of [
    ['a sparse disk that is larger than the limit', 'disk.raw', tib],
    ['firmware variables that are too large', 'vars.fd', 5 * mib],
  ] as const)
    it(`refuses ${name}`, async () => {
      await truncate(join(volume, file), bytes)
      expect(await refuseLarge(volume, mib).catch((error: unknown) => error)).to.include({ code: 'bad_stream' })
    })
})
