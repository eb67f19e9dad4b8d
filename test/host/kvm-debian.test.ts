import { execFileSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { planBootstrap } from '../../agent/images/bootstrap-plan.js'
import { findCatalogEntry, findRecipe, usualRescue, type Recipe } from '../../agent/images/catalog.js'
import { planDiskContent } from '../../agent/images/disks/plan-content.js'
import { plainSpec } from '../support/host/agent-calls.js'
import { RealDomain } from '../support/host/real-domain.js'
import { sshInto } from '../support/guests/ssh-into.js'

const cache = '/var/cache/berth-test'
const password = 'a-Password-1'

/**
 * Boots the disks that Berth builds from packages of Debian, each once: the usual disk and the rescue system. The disks
 * are cached after their first build.
 */
describe('a virtual machine with Debian', function () {
  const real = new RealDomain('kvd')
  const recipes = ['debian-12-kvm', usualRescue.kvm].map((id) => findRecipe(findCatalogEntry(id)!)!)
  let uuid = ''

  before(async () => {
    await real.open()
    const missing = recipes.filter((recipe) => !existsSync(kept(recipe)))
    for (const recipe of recipes) if (!missing.includes(recipe)) putImage(recipe)
    await real.domain.images.sweep()
    await Promise.all(missing.map(build))
  })
  after(() => real.close())

  const image = ({ id }: Recipe): string => join(real.config.storage.pool, 'images', id)

  function kept(recipe: Recipe): string {
    const plan = [planBootstrap(recipe, '/', []), planDiskContent(recipe, { rootUuid: '', kernel: '' })]
    const hash = createHash('sha256').update(JSON.stringify(plan)).digest('hex').slice(0, 16)
    return join(cache, `${recipe.id}-${hash}.raw`)
  }

  function putImage(recipe: Recipe): void {
    execFileSync('btrfs', ['-q', 'subvolume', 'create', image(recipe)])
    execFileSync('chattr', ['+C', image(recipe)])
    execFileSync('cp', ['--sparse=always', kept(recipe), join(image(recipe), 'disk.raw')])
    execFileSync('btrfs', ['property', 'set', image(recipe), 'ro', 'true'])
  }

  async function build(recipe: Recipe): Promise<void> {
    await real.done({ $case: 'imageDownload', value: { templateId: recipe.id } })
    mkdirSync(cache, { recursive: true, mode: 0o700 })
    const file = kept(recipe)
    execFileSync('cp', ['--sparse=always', join(image(recipe), 'disk.raw'), `${file}.new`])
    renameSync(`${file}.new`, file)
  }

  /** User data of a customer: a MIME message with CRLF line endings, compressed by gzip, in base64. */
  function customersData(): string {
    const parts = {
      'text/cloud-config': '#cloud-config\nruncmd:\n- [touch, /root/made-by-customer]\n',
      'text/x-shellscript; charset=utf-8': '#!/bin/sh\necho scrípt >/root/by-script\n',
      'text/cloud-boothook': '#cloud-boothook\n#!/bin/sh\necho hook >/root/by-hook\n',
      'text/jinja2':
        '## template: jinja\n#cloud-config\nwrite_files:\n' +
        '- {path: /root/by-template, content: "{{ v1.local_hostname }}\\n", defer: true}\n',
    }
    const message = [
      'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="of-the-customer"\n\n',
      ...Object.entries(parts).map(([type, text]) => `--of-the-customer\nContent-Type: ${type}\n\n${text}\n`),
      '--of-the-customer--\n',
    ].join('')
    return gzipSync(message.replaceAll('\n', '\r\n')).toString('base64')
  }

  const inside = (command: string, login = password): Promise<string> =>
    sshInto({ address: real.record(uuid).ipv4, password: login }, command)

  it('boots with its name, disk size, address and the user data of its customer', async () => {
    uuid = await real.create('deb-1.example.com', {
      virtualization: 'kvm',
      templateId: 'debian-12-kvm',
      sshAuthMode: 'password',
      sshPassword: password,
      limits: { ...plainSpec.limits!, vcpuMilli: 2000, ramMb: 512, diskGb: 3 },
      userData: customersData(),
    })
    const said = await inside(
      'cloud-init status --wait >/dev/null; hostname; hostname -f; cloud-init status; cd /root; ls; cat by*; df -BG --output=size / | tail -1',
    )
    expect(said.split('\n').map((line) => line.trim())).to.deep.equal([
      'deb-1',
      'deb-1.example.com',
      'status: done',
      'by-hook',
      'by-script',
      'by-template',
      'made-by-customer',
      'hook',
      'scrípt',
      'deb-1',
      '3G',
    ])
    const failed = await inside('systemctl --failed --plain --no-legend; systemctl is-active qemu-guest-agent')
    expect(failed).to.equal('active')
    await real.done({ $case: 'snapshotCreate', value: { uuid, description: '' } })
  })

  it('shuts down when its power button is pressed, and can be repaired with the rescue system', async () => {
    const operationId = randomUUID()
    const order = { $case: 'changeBoot', value: { uuid, mode: 'rescue', image: '', force: false } } as const
    const { operation, sshPassword } = await real.domain.orders.submit({ operationId, requestedBy: 'test', order })
    const { status, error } = await real.domain.engine.wait(operation.id)
    expect(status, error).to.equal('done')
    const tools = 'btrfs cryptsetup mkfs.vfat ddrescue sgdisk lvm mdadm ntfsfix parted rsync xfs_repair e2fsck'
    const said = await inside(
      [
        `for tool in ${tools}; do command -v $tool >/dev/null || echo "no $tool"; done`,
        'hostname',
        'findmnt -no SOURCE /',
        'readlink /dev/disk/by-id/virtio-berth-root',
        // The guest was shut down cleanly, so its file system has no errors.
        'e2fsck -fn /dev/vdb1 >/dev/null 2>&1; echo $?',
        'mount /dev/vdb1 /mnt; ls /mnt/root/made*',
        'echo repaired >/mnt/root/repaired; umount /mnt; echo on',
      ].join('; '),
      sshPassword,
    )
    expect(said.split('\n')).to.deep.equal(['deb-1', '/dev/vda1', '../../vdb', '0', '/mnt/root/made-by-customer', 'on'])
  })
})
