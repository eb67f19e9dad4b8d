import { execFileSync } from 'node:child_process'
import { linkSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { growDisk, readInstance, writeInstance } from '../../agent/drivers/qemu/disk.js'

describe('the volume of a virtual machine from an untrusted backup', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-kvm-volume-'))
  const canary = join(directory, 'canary')
  let volume = ''
  let count = 0
  beforeEach(() => {
    volume = join(directory, `volume-${count++}`)
    mkdirSync(volume)
    writeFileSync(canary, '{"id":"of-the-host"}')
  })
  after(() => rmSync(directory, { recursive: true, force: true }))

  const disks: Record<string, (path: string) => void> = {
    'a symbolic link': (path) => symlinkSync(canary, path),
    'a hard link': (path) => linkSync(canary, path),
    'a block device': (path) => execFileSync('mknod', [path, 'b', '7', '255']),
    'a character device': (path) => execFileSync('mknod', [path, 'c', '1', '3']),
    'a pipe': (path) => execFileSync('mkfifo', [path]),
    'a directory': (path) => mkdirSync(path),
  }

  for (const [what, make] of Object.entries(disks)) {
    it(`is treated as missing if its disk file is ${what}`, async () => {
      make(join(volume, 'disk.raw'))
      const refusal = await growDisk(volume, 1024).then(
        () => 'taken',
        ({ code }: { code?: string }) => code,
      )
      expect(refusal).to.equal('volume_missing')
      expect(readFileSync(canary, 'utf8')).to.equal('{"id":"of-the-host"}')
    })

    it(`gets a new instance file in place of ${what}`, async () => {
      for (const name of ['instance.json', 'instance.json.new']) make(join(volume, name))
      expect((await readInstance(volume)).id).to.match(/^iid-/)
      await writeInstance(volume, { id: 'iid-new' })
      expect(await readInstance(volume)).to.deep.equal({ id: 'iid-new' })
      expect(lstatSync(join(volume, 'instance.json')).mode & 0o7777).to.equal(0o600)
      expect(readFileSync(canary, 'utf8')).to.equal('{"id":"of-the-host"}')
    })
  }

  for (const text of ['', '{', 'null', '[]', '{"id":5}', `{"id":"${'x'.repeat(600_000)}"}`])
    it(`gets a new instance id instead of ${text.slice(0, 12) || 'nothing'} in its instance file`, async () => {
      writeFileSync(join(volume, 'instance.json'), text)
      expect((await readInstance(volume)).id).to.match(/^iid-/)
    })
})
