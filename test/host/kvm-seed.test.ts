import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { planIso } from '../../agent/drivers/qemu/iso/plan-iso.js'
import { writeSeed } from '../../agent/drivers/qemu/seed.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'

const cloud = {
  label: 'cidata',
  files: [
    { name: 'user-data', content: `#cloud-config\n${'x'.repeat(90_000)}\n` },
    { name: 'meta-data', content: '{"instance-id":"iid-1"}\n' },
    { name: 'network-config', content: 'ü'.repeat(1024) },
    { name: 'empty', content: '' },
  ],
} as const
const drive = {
  label: 'config-2',
  files: [
    { name: 'openstack/latest/meta_data.json', content: '{"uuid":"1"}\n' },
    { name: 'openstack/latest/network_data.json', content: '{}\n' },
    { name: 'openstack/content/0000', content: 'y'.repeat(2048) },
    { name: 'top', content: 'z' },
  ],
} as const

/** Programs of this host (blkid, isoinfo) read the CDs. kvm-guest and kvm-debian test that kernels of guests can read them. */
describe('a CD with the configuration of a guest', () => {
  const { path: directory, wipe } = scratchDirectory('btest-kvm-seed')
  const file = join(directory, 'seed.iso')
  const kept = join(directory, 'kept.iso')
  after(wipe)

  for (const [what, { label, files }] of [
    ['for cloud-init', cloud],
    ['for Windows', drive],
  ] as const) {
    it(`${what} has the requested volume label`, () => {
      writeFileSync(file, planIso(label, files))
      expect(sh('blkid', '-p', '-o', 'value', '-s', 'LABEL', file)).to.equal(`${label}\n`)
      expect(sh('blkid', '-p', '-o', 'value', '-s', 'TYPE', file)).to.equal('iso9660\n')
    })

    for (const [names, option] of [
      ['Rock Ridge', '-R'],
      ['Joliet', '-J'],
    ] as const)
      it(`${what} contains all files under their ${names} names`, () => {
        writeFileSync(file, planIso(label, files))
        const listed = sh('isoinfo', option, '-f', '-i', file).trim().split('\n')
        for (const { name, content } of files) {
          expect(listed).to.include(`/${name}`)
          expect(sh('isoinfo', option, '-i', file, '-x', `/${name}`)).to.equal(content)
        }
      })
  }

  it('keeps its size and inode when its content changes, and only root can read it', async () => {
    await writeSeed(cloud, kept)
    const before = statSync(kept)
    await writeSeed({ label: 'cidata', files: [{ name: 'meta-data', content: 'shorter' }] }, kept)
    const { ino, size, mode } = statSync(kept)
    expect([ino, size, mode & 0o777]).to.deep.equal([before.ino, before.size, 0o600])
    expect(sh('isoinfo', '-J', '-i', kept, '-x', '/meta-data')).to.equal('shorter')
    expect(sh('isoinfo', '-J', '-f', '-i', kept).trim()).to.equal('/meta-data')
  })

  it('is not written if its files do not fit', async () => {
    const huge = [{ name: 'user-data', content: 'x'.repeat(2 ** 20) }]
    const refusal = await writeSeed({ label: 'cidata', files: huge }, kept).catch((error: Error) => error.message)
    expect(refusal).to.match(/the first-boot CD has \d+ bytes/)
  })
})
