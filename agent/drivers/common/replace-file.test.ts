import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from './replace-file.js'

describe('the replacement of a file', () => {
  let directory = ''
  let path = ''
  beforeEach(async () => {
    directory = mkdtempSync('/tmp/btest-replace-')
    path = join(directory, 'file')
    await replaceFile(path, 'one', 0o600)
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  it('does not write a file whose content and mode are already right', async () => {
    const { ino } = statSync(path)
    await replaceFile(path, 'one', 0o600)
    expect(statSync(path).ino).to.equal(ino)
  })

  for (const [what, spoil] of [
    ['content', () => writeFileSync(path, '')],
    ['mode', () => chmodSync(path, 0o644)],
  ] as const)
    it(`repairs a file whose ${what} differs`, async () => {
      spoil()
      await replaceFile(path, 'one', 0o600)
      expect(readFileSync(path, 'utf8')).to.equal('one')
      expect(statSync(path).mode & 0o7777).to.equal(0o600)
    })

  for (const [what, make] of [
    ['a symbolic link', () => symlinkSync(`${path}.other`, path)],
    ['a hard link', () => linkSync(`${path}.other`, path)],
    ['a pipe', () => execFileSync('mkfifo', [path])],
  ] as const)
    it(`creates a new file in place of ${what}`, async () => {
      renameSync(path, `${path}.other`)
      make()
      await replaceFile(path, 'one', 0o600)
      const { nlink } = lstatSync(path)
      expect([lstatSync(path).isFile(), nlink]).to.deep.equal([true, 1])
      expect(readFileSync(`${path}.other`, 'utf8')).to.equal('one')
    })
})
