import { expect } from 'chai'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Header, Pax } from 'tar'
import { Unpacker } from './unpack.js'

type HeaderFields = ConstructorParameters<typeof Header>[0]

const block = 512
/** Returns an entry of an archive, without any check of its fields. */
function entry(fields: Exclude<HeaderFields, Buffer | undefined>, content = ''): Buffer {
  const header = new Header({ mode: 0o644, mtime: new Date(0), size: content.length, type: 'File', ...fields })
  header.encode()
  const padding = Buffer.alloc((block - (content.length % block)) % block)
  return Buffer.concat([header.block!, Buffer.from(content), padding])
}
const end = Buffer.alloc(2 * block)

describe('the unpacking of an archive from a hostile guest', () => {
  let directory: string
  let skipped: string[]
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'btest-unpack-'))
    mkdirSync(join(directory, 'outside'))
    writeFileSync(join(directory, 'outside/file'), 'before')
    skipped = []
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true }))

  async function unpack(entries: readonly Buffer[], { isRecursive = true, chunkBytes = 1000 } = {}): Promise<void> {
    const target = join(directory, 'www')
    const unpacker = new Unpacker({ name: 'www', isRecursive, target, onSkip: (path) => skipped.push(path) })
    const archive = Buffer.concat([...entries, end])
    for (let at = 0; at < archive.length; at += chunkBytes) await unpacker.write(archive.subarray(at, at + chunkBytes))
    await unpacker.end()
  }

  async function failure(entries: readonly Buffer[], options?: { isRecursive: boolean }): Promise<string> {
    const error = await unpack(entries, options).then(
      () => new Error('nothing failed'),
      (cause: unknown) => cause as Error,
    )
    return error.message
  }
  const read = (path: string): string => readFileSync(join(directory, path), 'utf8')
  const tree = entry({ path: 'www/', type: 'Directory', mode: 0o755 })

  it('keeps the permissions of directories, without setuid', async () => {
    await unpack([entry({ path: 'www/', type: 'Directory', mode: 0o4700 }), entry({ path: 'www/a' }, 'a')])
    expect(lstatSync(join(directory, 'www')).mode & 0o7777).to.equal(0o700)
  })

  it('reports entries of an unknown type and names that are not UTF-8', async () => {
    const strange = entry({ path: 'www/strange' })
    strange[156] = 'Z'.charCodeAt(0)
    strange.fill(' ', 148, 156)
    strange.write(
      strange
        .subarray(0, block)
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, '0'),
      148,
    )
    await unpack([tree, strange, entry({ path: 'www/\ufffd' }, 'b')])
    expect(skipped).to.deep.equal(['www/strange', 'www/\ufffd'])
  })

  it('ignores all data after the end of the archive', async () => {
    await unpack([tree, entry({ path: 'www/a' }, 'a'), end, Buffer.alloc(1_000_000, 120)])
    expect(read('www/a')).to.equal('a')
  })

  for (const magic of ['1f8b0800', '28b52ffd'])
    it(`refuses an archive that is compressed (${magic})`, async () =>
      expect(await failure([Buffer.from(magic, 'hex'), tree])).to.include('compressed'))

  it('writes files, directories and links inside the directory, and writes hard links as copies', async () => {
    const large = 'x'.repeat(300_000)
    await unpack([
      tree,
      entry({ path: './www/a', mode: 0o4755 }, 'content'),
      entry({ path: 'www/sub/large' }, large),
      entry({ path: 'www/sub/link', type: 'SymbolicLink', linkpath: '../a' }),
      entry({ path: 'www/hard', type: 'Link', linkpath: 'www/a' }),
      entry({ path: 'www/empty' }),
    ])
    expect([read('www/a'), read('www/hard'), read('www/empty')]).to.deep.equal(['content', 'content', ''])
    expect(read('www/sub/large')).to.equal(large)
    expect(lstatSync(join(directory, 'www/a')).mode & 0o7777).to.equal(0o755 & ~process.umask())
    expect(readlinkSync(join(directory, 'www/sub/link'))).to.equal('../a')
    expect(skipped).to.deep.equal([])
  })

  it('does not write through a link that it has created', async () => {
    const message = await failure([
      tree,
      entry({ path: 'www/sub/', type: 'Directory' }),
      entry({ path: 'www/link', type: 'SymbolicLink', linkpath: 'sub' }),
      entry({ path: 'www/link/file' }, 'x'),
    ])
    expect(message).to.match(/www\/link exists and is not a directory/)
  })

  it('replaces a link that has the name of a file in the archive, and does not follow the link', async () => {
    mkdirSync(join(directory, 'www'))
    symlinkSync('../outside/file', join(directory, 'www/file'))
    await unpack([tree, entry({ path: 'www/file' }, 'new')])
    expect([read('www/file'), read('outside/file')]).to.deep.equal(['new', 'before'])
  })

  it('does not write through a link that already exists on this machine', async () => {
    symlinkSync('outside', join(directory, 'www'))
    expect(await failure([tree, entry({ path: 'www/file' }, 'new')])).to.match(/www exists and is not a directory/)
    expect(read('outside/file')).to.equal('before')
  })

  it('skips links that lead out of the directory, hard links to unknown files, and devices', async () => {
    await unpack([
      tree,
      entry({ path: 'www/up', type: 'SymbolicLink', linkpath: '../outside' }),
      entry({ path: 'www/absolute', type: 'SymbolicLink', linkpath: '/etc/passwd' }),
      entry({ path: 'www/hard', type: 'Link', linkpath: '../outside/file' }),
      entry({ path: 'www/unknown', type: 'Link', linkpath: 'www/never' }),
      entry({ path: 'www/null', type: 'CharacterDevice' }),
      entry({ path: 'www/last' }, 'last'),
    ])
    expect(skipped).to.deep.equal(['www/up', 'www/absolute', 'www/hard', 'www/unknown', 'www/null'])
    for (const path of skipped) expect(existsSync(join(directory, path)), path).to.equal(false)
    expect(read('www/last')).to.equal('last')
  })

  it('skips a hard link if a symbolic link in the archive has replaced the target of the hard link', async () => {
    await unpack([
      tree,
      entry({ path: 'www/a' }, 'content'),
      entry({ path: 'www/a', type: 'SymbolicLink', linkpath: 'b' }),
      entry({ path: 'www/c', type: 'Link', linkpath: 'www/a' }),
    ])
    expect(skipped).to.deep.equal(['www/c'])
  })

  for (const path of ['../escaped', '/tmp/btest-escaped', 'www/../escaped', 'other'])
    it(`refuses an entry with the path ${path}`, async () => {
      expect(await failure([tree, entry({ path }, 'x')])).to.equal(`the guest sent ${path}, which was not requested`)
      expect(existsSync(join(directory, 'escaped'))).to.equal(false)
    })

  it('refuses a path that only an extended header contains', async () => {
    const pax = new Pax({ path: '../escaped' }).encode()
    expect(await failure([tree, pax, entry({ path: 'www/a' }, 'x')])).to.match(/the guest sent \.\.\/escaped/)
  })

  it('accepts only the requested file if no directory was requested', async () => {
    await unpack([entry({ path: './www' }, 'content')], { isRecursive: false })
    expect(read('www')).to.equal('content')
    expect(await failure([tree], { isRecursive: false })).to.match(/was not requested/)
  })

  for (const [name, entries] of [
    ['other data', [Buffer.alloc(4 * block, 'x')]],
    ['an empty archive', []],
    ['an archive that ends early', [entry({ path: 'www' }, 'x'.repeat(5000)).subarray(0, 2 * block)]],
    ['an extended header of several gigabytes', [entry({ path: 'www', type: 'ExtendedHeader', size: 2 ** 33 - 1 })]],
  ] as const)
    it(`refuses ${name}`, async () => expect(await failure(entries)).to.match(/archive from the guest is invalid/))
})
