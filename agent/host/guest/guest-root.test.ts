import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { changeRoot, listExisting } from './guest-root.js'

describe('files of a guest', () => {
  let scratch: string
  let root: string

  beforeEach(() => {
    scratch = mkdtempSync(join(tmpdir(), 'btest-root-'))
    root = join(scratch, 'root')
    mkdirSync(join(root, 'etc'), { recursive: true })
    mkdirSync(join(root, 'root/.ssh'), { recursive: true })
    writeFileSync(join(root, 'etc/shadow'), 'root:!:19000::::::\n')
  })
  afterEach(() => rmSync(scratch, { recursive: true, force: true }))

  const change = (): Promise<void> =>
    changeRoot(root, [
      { kind: 'password', hash: '$6$new' },
      { kind: 'key', content: 'ssh-ed25519 AAAA\n' },
    ])

  for (const name of ['etc/shadow.berth', 'root/.ssh/authorized_keys.berth'])
    it(`are changed even if a directory has the name of the temporary file ${name}`, async () => {
      mkdirSync(join(root, name, 'full'), { recursive: true })
      await change()
      expect(readFileSync(join(root, 'etc/shadow'), 'utf8')).to.match(/^root:\$6\$new:/)
      expect(readFileSync(join(root, 'root/.ssh/authorized_keys'), 'utf8')).to.equal('ssh-ed25519 AAAA\n')
      expect(readdirSync(join(root, name))).to.deep.equal(['full'])
    })

  it('are not deleted by a change, except temporary files of interrupted changes', async () => {
    for (const end of ['.berth', '.berth-0123456789abcdef', '.berth-own', '-']) {
      writeFileSync(join(root, `etc/shadow${end}`), '')
    }
    await change()
    expect(readdirSync(join(root, 'etc')).sort()).to.deep.equal(['shadow', 'shadow-', 'shadow.berth-own'])
  })

  it('stay unchanged, without temporary files, if one of the changes fails', async () => {
    mkdirSync(join(root, 'etc/hosts'))
    const failed = changeRoot(root, [{ kind: 'file', path: 'etc/hosts', mode: 0o644, content: 'text' }])
    expect(
      await failed.then(
        () => 'done',
        (error: Error) => error.message,
      ),
    ).to.match(/etc\/hosts/)
    expect(readdirSync(join(root, 'etc')).sort()).to.deep.equal(['hosts', 'shadow'])
  })

  it('are listed only if they are regular files and their path contains no link', async () => {
    const outside = join(scratch, 'outside')
    mkdirSync(join(outside, 'ssh'), { recursive: true })
    for (const path of [join(outside, 'ssh/key'), join(root, 'etc/key')]) writeFileSync(path, '')
    mkdirSync(join(root, 'etc/folder'))
    symlinkSync(join(outside, 'ssh'), join(root, 'etc/ssh'))
    symlinkSync(join(outside, 'ssh/key'), join(root, 'etc/link'))
    symlinkSync(outside, join(root, 'etc-link'))
    const paths = ['etc/ssh/key', 'etc/link', 'etc-link/ssh/key', 'etc/../../outside/ssh/key', 'etc/folder']
    expect(await listExisting(root, [...paths, 'etc/none', 'etc/key'])).to.deep.equal(['etc/key'])
  })

  it('are extended by a line only if they are regular files of less than 1 MiB', async () => {
    const [large, linked, missing] = ['etc/large', 'etc/linked', 'etc/missing'].map((path) => join(root, path))
    const blocked = '0.0.0.0 ads.example\n'.repeat(60_000)
    writeFileSync(large!, blocked)
    writeFileSync(join(root, 'etc/target'), 'text\n')
    symlinkSync('target', linked!)
    for (const path of ['etc/large', 'etc/linked', 'etc/missing'])
      await changeRoot(root, [{ kind: 'line', path, first: '127.0.1.1', line: '127.0.1.1 new', content: 'whole\n' }])
    expect(readFileSync(large!, 'utf8') === blocked).to.equal(true)
    expect(readFileSync(linked!, 'utf8')).to.equal('text\n')
    expect(readFileSync(missing!, 'utf8')).to.equal('whole\n')
  })
})
