import { expect } from 'chai'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open, readOrCreateKey, seal } from './sealing.js'

describe('sealing (the encryption of stored secrets)', () => {
  const key = randomBytes(32)

  it('decrypts a text that it has encrypted', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (text, context) => open(key, seal(key, text, context), context) === text),
    )
  })

  it('encrypts the same text differently each time, and does not reveal the text', () => {
    const [a, b] = [seal(key, 'geheim123'), seal(key, 'geheim123')]
    expect(a).not.to.equal(b)
    expect(Buffer.from(a, 'base64url').toString('latin1')).not.to.contain('geheim123')
  })

  it('does not decrypt with another key or context, or if any byte was changed', () => {
    const sealed = seal(key, 'text', 'a')
    const bytes = Buffer.from(sealed, 'base64url')
    expect(() => open(randomBytes(32), sealed, 'a')).to.throw('a stored secret cannot be decrypted')
    expect(() => open(key, sealed, 'b')).to.throw('a stored secret cannot be decrypted')
    bytes.forEach((_, i) => {
      const changed = Buffer.from(bytes)
      changed[i]! ^= 1
      expect(() => open(key, changed.toString('base64url'), 'a'), `byte ${i}`).to.throw(
        'a stored secret cannot be decrypted',
      )
    })
    for (const short of ['', 'AQ', sealed.slice(0, 30)]) expect(() => open(key, short, 'a')).to.throw()
  })
})

describe('a key file', () => {
  let directory: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'btest-key-'))
  })
  afterEach(async () => rm(directory, { recursive: true }))

  it('is created only once for concurrent callers, and only its owner can read it', async () => {
    const path = join(directory, 'made', 'key')
    const keys = await Promise.all(Array.from({ length: 20 }, () => readOrCreateKey(path)))
    expect(new Set(keys.map((key) => key.toString('hex'))).size).to.equal(1)
    expect(keys[0]).to.have.length(32)
    expect((await stat(path)).mode & 0o777).to.equal(0o600)
    expect(await readdir(join(directory, 'made'))).to.deep.equal(['key'])
  })

  it('is refused, but not overwritten, if its content is not a key', async () => {
    const path = join(directory, 'key')
    await writeFile(path, 'short\n')
    const failure = await readOrCreateKey(path).then(() => '', String)
    expect(failure).to.contain('is damaged: restore it from a backup')
    expect(await readFile(path, 'utf8')).to.equal('short\n')
  })
})
