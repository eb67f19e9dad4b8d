import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { findUploaded, takeUploaded } from './uploaded.js'

const sha256 = createHash('sha256').update('a disk').digest('hex')

describe('uploaded files on the host', () => {
  let directory: string
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-uploads-'))
    writeFileSync(join(directory, 'disk.qcow2'), 'a disk')
    symlinkSync('/etc/passwd', join(directory, 'link'))
  })
  after(() => rmSync(directory, { recursive: true }))

  const take = (url: string, fields: object = {}): Promise<string> =>
    takeUploaded(
      directory,
      { url, sha256, maxBytes: 100, file: join(directory, 'taken'), ...fields },
      new AbortController().signal,
    ).then(
      () => readFileSync(join(directory, 'taken'), 'utf8'),
      (error: { code: string }) => error.code,
    )

  it('are named by URLs of the form upload:NAME, in which NAME is not a path', () => {
    expect(findUploaded('upload:disk.qcow2')).to.equal('disk.qcow2')
    for (const url of ['upload:../x', 'upload:.x', 'upload:', 'upload:a/b', 'https://x/upload:a'])
      expect(findUploaded(url), url).to.equal(undefined)
  })

  for (const [what, url, fields, expected] of [
    ['accepted if checksum and size are right', 'upload:disk.qcow2', {}, 'a disk'],
    ['rejected if the checksum differs', 'upload:disk.qcow2', { sha256: 'ab'.repeat(32) }, 'checksum_mismatch'],
    ['rejected if they are too large', 'upload:disk.qcow2', { maxBytes: 3 }, 'download_too_large'],
    ['rejected if they do not exist', 'upload:none', {}, 'upload_missing'],
    ['rejected if they are links', 'upload:link', {}, 'upload_missing'],
    ['rejected if the name is a path', 'upload:../etc/passwd', {}, 'upload_missing'],
  ] as const)
    it(`are ${what}`, async () => expect(await take(url, fields)).to.equal(expected))
})
