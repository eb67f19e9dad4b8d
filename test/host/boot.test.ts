import { execFileSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect } from 'chai'
import type { CatalogEntry } from '../../agent/images/catalog.js'
import type { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import type { ChangeBootOrder, SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import { plainSpec, powerOrder, reinstallOrder, resetPasswordOrder } from '../support/host/agent-calls.js'
import { fillBusyboxTree } from '../support/guests/busybox-image.js'
import { ImageServer } from '../support/guests/image-server.js'
import { RealDomain } from '../support/host/real-domain.js'
import { refusal } from '../support/refusal.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { tinyCd } from '../support/guests/tiny-cd.js'
import { installTinyImage } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'

const password = 'a-Password-1'
const machineSpec: Partial<GuestSpec> = {
  virtualization: 'kvm',
  templateId: 'debian-12-kvm',
  sshAuthMode: 'password',
  sshPassword: password,
  limits: { ...plainSpec.limits!, ramMb: 256, diskGb: 1 },
}

/** Tests other boot sources than the disk: a downloaded CD, and rescue systems. */
describe('the boot source of a guest', function () {
  let server: ImageServer
  let real: RealDomain
  let machine = ''
  let container = ''
  const cd = tinyCd('I AM THE CD')
  const cdId = 'custom-cd-0123456789ab'

  before(async () => {
    server = await ImageServer.start()
    server.files.set('/tiny.iso', cd)
    real = new RealDomain('kvb', { images: server.settings })
    await real.open()
    for (const id of ['debian-12-kvm', 'rescue-kvm']) installTinyImage(real.config.storage.pool, id)
    await real.domain.images.sweep()
    real.domain.imageAdmin.addCustom(cdEntry())
    machine = await real.create('vm-1', machineSpec)
    container = await real.create('ct-1')
  })
  after(async () => {
    await real?.close()
    await server?.close()
  })

  function cdEntry(): CatalogEntry {
    return {
      id: cdId,
      name: 'A CD',
      distro: 'tiny',
      release: '1',
      arch: 'amd64',
      variant: 'default',
      description: '',
      virtualization: 'iso',
      os: 'linux',
      source: {
        kind: 'url',
        url: `${server.url}/tiny.iso`,
        sha256: createHash('sha256').update(cd).digest('hex'),
      },
    }
  }

  const orderOf = (uuid: string, fields: Partial<ChangeBootOrder>): SubmitOperationRequest['order'] => ({
    $case: 'changeBoot',
    value: { uuid, mode: 'disk', image: '', force: true, ...fields },
  })
  /** Changes the boot source, and waits until the operation has ended. @returns the rescue system's root password */
  async function boot(uuid: string, fields: Partial<ChangeBootOrder>): Promise<string> {
    const order = orderOf(uuid, fields)!
    const operationId = randomUUID()
    const { operation, sshPassword } = await real.domain.orders.submit({ operationId, requestedBy: 'test', order })
    const { status, error } = await real.domain.engine.wait(operation.id)
    expect(status, error).to.equal('done')
    return sshPassword ?? ''
  }
  const refused = (order: SubmitOperationRequest['order']): Promise<string> =>
    codeOf(real.domain.orders.submit({ operationId: randomUUID(), requestedBy: 'test', order: order! }))
  const codeOf = async (work: Promise<unknown>): Promise<string> => (await refusal(work)).split(':')[0] ?? ''
  const ssh = (command: string, login = password): Promise<string> =>
    sshInto({ address: real.record(machine).ipv4, password: login }, command)
  const rescueOf = (uuid: string): string => real.host.volumes.rescuePathOf(uuid)

  /** Waits for a text on the serial port of the virtual machine. */
  async function hears(wanted: string): Promise<void> {
    const { context } = real.domain
    const place = await context.machines
      .findDriver('kvm')!
      .findConsole(context.machines.of(real.record(machine)), 'serial')
    const stream = connect(place.kind === 'socket' ? place.path : '')
    let said = ''
    stream.on('data', (chunk: Buffer) => (said = (said + chunk.toString('latin1')).slice(-10_000)))
    await waitFor(() => said.includes(wanted), { what: () => `${wanted}: ${said}` })
    stream.destroy()
  }

  describe('for a virtual machine', () => {
    it('can be a CD, which is downloaded on request', async () => {
      await ssh('echo kept >/data/word; sync')
      await boot(machine, { mode: 'cdrom', image: cdId })
      await hears('I AM THE CD')
      expect(real.record(machine)).to.deep.include({ boot: { mode: 'cdrom', image: cdId }, status: 'running' })
      const { context } = real.domain
      const own = context.machines.of(real.record(machine))
      const more = { ...own, nic: { ...own.nic, ipv6Addresses: ['2001:db8::7'] } }
      expect(await context.machines.findDriver('kvm')!.assignAddresses(more, [])).to.equal('at_next_start')
      expect(await codeOf(real.domain.imageAdmin.delete(cdId))).to.equal('image_in_use')
    })

    it('can change to a rescue system while the guest is stopped, and back to the disk while it runs', async () => {
      await real.done(powerOrder('stop', machine).order)
      const login = await boot(machine, { mode: 'rescue' })
      await real.done(powerOrder('start', machine).order)
      expect(await real.domain.imageAdmin.delete(cdId)).to.equal(true)
      expect(login).to.have.length.greaterThan(12)
      expect(await ssh('hostname; ls /data; grep -c . /proc/partitions', login)).to.match(/^vm-1\n/)
      const repaired =
        'mkdir -p /tmp/d; mount -t ext4 /dev/vdb2 /tmp/d && cat /tmp/d/word && echo repaired >/tmp/d/word; umount /tmp/d; sync'
      expect(await ssh(repaired, login)).to.equal('kept')
      expect(await refused(resetPasswordOrder(machine).order)).to.equal('invalid_state')
      const again = reinstallOrder(machine, { templateId: 'debian-12-kvm' }).order
      expect(await refused(again)).to.equal('invalid_state')
      expect(await refused(orderOf(machine, { mode: 'rescue' }))).to.equal('invalid_state')
      await boot(machine, { mode: 'disk' })
      expect(await ssh('cat /data/word; ls /dev/sr0 2>&1 | tail -1')).to.match(/^repaired\n.*No such file/)
      expect(existsSync(rescueOf(machine))).to.equal(false)
    })
  })

  describe('for a container', () => {
    it('can be a rescue system with the guest’s files at /mnt, reachable at the mapped port', async () => {
      real.inside(container, 'echo kept >/root/word; mkdir -p /opt; rm -f /opt/x')
      await boot(container, { mode: 'rescue' })
      expect(real.inside(container, 'hostname; ls /root; cat /mnt/root/word')).to.equal('ct-1\nkept')
      expect(real.inside(container, 'echo repaired >/mnt/root/word; ls -ln /mnt/root/word')).to.match(/ 0 +0 .*word$/)
      const [{ hostPort = 0 } = {}] = real.record(container).portMappings
      const [address = ''] = execFileSync('hostname', ['-I'], { encoding: 'utf8' }).split(' ')
      real.inside(container, '(echo from rescue | nc -l -p 22 >/dev/null 2>&1 &) ')
      const said = await waitFor(async () => (await readFrom(address, hostPort)) || undefined, {
        what: 'the port',
      })
      expect(said).to.equal('from rescue\n')
      await boot(container, { mode: 'disk' })
      expect(real.inside(container, 'cat /root/word')).to.equal('repaired')
      expect(existsSync(rescueOf(container))).to.equal(false)
    })

    it('can change to a rescue system while the guest is stopped; this system is deleted with the guest', async () => {
      const uuid = await real.create('ct-2', { start: false })
      await boot(uuid, { mode: 'rescue' })
      expect(real.record(uuid)).to.deep.include({
        status: 'stopped',
        boot: { mode: 'rescue', image: 'debian-12' },
      })
      await real.done(powerOrder('start', uuid).order)
      expect(real.inside(uuid, 'ls -d /mnt/root')).to.equal('/mnt/root')
      await real.done(powerOrder('delete', uuid).order)
      expect(existsSync(rescueOf(uuid))).to.equal(false)
    })

    for (const [what, fields, code] of [
      ['a CD, which only virtual machines have', { mode: 'cdrom', image: cdId }, 'invalid_field'],
      ['an unknown mode', { mode: 'net' }, 'invalid_field'],
      ['the disk if the request also contains an image', { mode: 'disk', image: 'debian-12' }, 'invalid_field'],
      ['a rescue system from an image that does not exist', { mode: 'rescue', image: 'no-such' }, 'invalid_field'],
      [
        'a rescue system from an image for virtual machines',
        { mode: 'rescue', image: 'debian-12-kvm' },
        'invalid_field',
      ],
      ['a rescue system from an image whose name is a path', { mode: 'rescue', image: '../../etc' }, 'invalid_field'],
    ] as const)
      it(`cannot be ${what}`, async () => expect(await refused(orderOf(container, fields))).to.equal(code))
  })

  describe('if the rescue system does not start', () => {
    it('changes back to the disk', async () => {
      const uuid = await real.create('ct-3')
      real.inside(uuid, 'echo kept >/root/word')
      const broken = join(real.config.storage.pool, 'images', 'debian-13')
      execFileSync('btrfs', ['-q', 'subvolume', 'create', broken])
      fillBusyboxTree(broken, 'debian-13')
      rmSync(join(broken, 'sbin/init'))
      await real.domain.images.sweep()
      const { operation } = await real.domain.orders.submit({
        operationId: randomUUID(),
        requestedBy: 'test',
        order: orderOf(uuid, { mode: 'rescue', image: 'debian-13' })!,
      })
      expect((await real.domain.engine.wait(operation.id)).status).to.equal('failed')
      expect(real.record(uuid)).to.deep.include({ boot: { mode: 'disk', image: '' }, wanted: 'running' })
      expect(real.inside(uuid, 'cat /root/word')).to.equal('kept')
      expect(existsSync(rescueOf(uuid))).to.equal(false)
    })
  })
})

function readFrom(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('error', () => resolve(''))
    socket.on('close', () => resolve(text))
    socket.setTimeout(5000, () => socket.destroy())
  })
}
