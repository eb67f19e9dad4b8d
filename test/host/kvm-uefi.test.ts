import { execFileSync } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { parseCustom } from '../../agent/images/parse-custom.js'
import { readCgroupLayout, readGroupPids } from '../../agent/host/process/cgroup.js'
import type { GuestSpec } from '../../proto/gen/berth/agent/v1/guest.js'
import { plainSpec, powerOrder, resetPasswordOrder } from '../support/host/agent-calls.js'
import { ImageServer } from '../support/guests/image-server.js'
import { RealDomain } from '../support/host/real-domain.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { tinyCd } from '../support/guests/tiny-cd.js'
import { tinyUefiDisk } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'

const password = 'a-Password-1'

/**
 * Tests features that Windows requires. No test uses Windows itself, but a Linux that requires the same features: the
 * signed boot loader and kernel of Debian.
 */
describe('a virtual machine with UEFI, secure boot and a TPM', function () {
  let server: ImageServer
  let real: RealDomain
  let drivers: ReturnType<typeof scratchDirectory>
  const disk = readFileSync(tinyUefiDisk())

  before(async () => {
    server = await ImageServer.start()
    server.files.set('/uefi.raw', disk)
    drivers = scratchDirectory('btest-kvu-drivers')
    writeFileSync(join(drivers.path, 'virtio.iso'), tinyCd('drivers'))
    const kvm = { virtio_iso: join(drivers.path, 'virtio.iso') }
    real = new RealDomain('kvu', { images: server.settings, kvm })
    await real.open()
  })
  after(async () => {
    await real?.close()
    await server?.close()
    drivers?.wipe()
  })

  const spec = (templateId: string): Partial<GuestSpec> => ({
    virtualization: 'kvm',
    templateId,
    sshAuthMode: 'password',
    sshPassword: password,
    limits: { ...plainSpec.limits!, ramMb: 384, diskGb: 1 },
  })

  /** Adds an image, which is downloaded at its first use. @returns its id */
  function addImage(os: 'linux' | 'windows'): string {
    const id = `custom-${os}-0123456789ab`
    const sha256 = createHash('sha256').update(disk).digest('hex')
    const words = { name: os, description: '', distro: os, release: '1', arch: 'amd64', variant: '' }
    const entry = parseCustom(
      {
        id,
        virtualization: 'kvm',
        ...words,
        url: `${server.url}/uefi.raw`,
        sha256,
        os,
        firmware: 'uefi',
        secureBoot: true,
        tpm: true,
      },
      { allowHttp: true, allowedTargets: ['127.0.0.1'], setting: 'images' },
    )
    real.domain.imageAdmin.addCustom(entry)
    return id
  }
  const volumeOf = (uuid: string): string => real.host.volumes.pathOf(uuid)
  const commandsOf = (uuid: string): string[] => readGroupPids(groupOf(uuid)).map(commandOf)
  const groupOf = (uuid: string): string =>
    join(readCgroupLayout().controllers.get('pids')!, `kvm.payload.xkvu-${real.record(uuid).id}`)

  describe('with Linux', () => {
    let uuid = ''
    const inside = (command: string): Promise<string> => sshInto({ address: real.record(uuid).ipv4, password }, command)

    before(async () => void (uuid = await real.create('uefi-1', spec(addImage('linux')))))

    it('boots a signed system, which reports secure boot and a TPM of version 2', async () => {
      const said = await inside(
        'dmesg | grep -io "secure boot enabled" | head -1; cat /sys/class/tpm/tpm0/tpm_version_major; ls -d /sys/firmware/efi',
      )
      expect(said.toLowerCase()).to.equal('secure boot enabled\n2\n/sys/firmware/efi')
    })

    it('has its own UEFI variables and TPM state, and its TPM process is confined like its QEMU', async () => {
      expect(commandsOf(uuid).filter((name) => name === 'swtpm')).to.have.length(1)
      const { userIdBase } = real.domain.context.machines.of(real.record(uuid)).isolation
      const state = lstatSync(join(volumeOf(uuid), 'tpm'))
      expect([state.uid, state.mode & 0o777]).to.deep.equal([userIdBase, 0o700])
      expect(readdirSync(join(volumeOf(uuid), 'tpm'))).to.include('tpm2-00.permall')
      expect(lstatSync(join(volumeOf(uuid), 'vars.fd')).mode & 0o777).to.equal(0o600)
      for (const pid of readGroupPids(groupOf(uuid))) {
        const status = readFileSync(`/proc/${pid}/status`, 'utf8')
        expect(status).to.match(new RegExp(`^Uid:\\t${userIdBase}\\t${userIdBase}\\t`, 'm'))
        expect(status)
          .to.match(/^CapBnd:\t0+$/m)
          .and.match(/^NoNewPrivs:\t1$/m)
      }
    })

    it('keeps its UEFI variables and TPM state after a stop, and leaves no process behind', async () => {
      const vars = join(volumeOf(uuid), 'vars.fd')
      const first = lstatSync(vars).ino
      expect(readFileSync(vars).equals(readFileSync('/usr/share/OVMF/OVMF_VARS_4M.ms.fd'))).to.equal(false)
      await real.done(powerOrder('stop', uuid).order)
      await waitFor(() => commandsOf(uuid).length === 0, { what: 'the TPM to end' })
      await real.done(powerOrder('start', uuid).order)
      expect(await inside('cat /sys/class/tpm/tpm0/tpm_version_major')).to.equal('2')
      expect(lstatSync(vars).ino).to.equal(first)
    })
  })

  describe('that is configured for Windows', () => {
    let uuid = ''
    before(async () => void (uuid = await real.create('desk-1', spec(addImage('windows')))))

    it('boots with its name and password on a config drive', async () => {
      const { context } = real.domain
      const record = real.record(uuid)
      expect(record).to.include({ os: 'windows', status: 'running' })
      const place = join(real.config.state_dir, 'kvm', `xkvu-${record.id}`, 'seed.iso')
      const volume = sh('isoinfo', '-d', '-i', place)
      expect(volume).to.match(/^Volume id: config-2\s*$/m)
      const read = (name: string): Record<string, unknown> =>
        JSON.parse(
          execFileSync('isoinfo', ['-R', '-i', place, '-x', `/openstack/latest/${name}`], {
            encoding: 'utf8',
          }),
        ) as Record<string, unknown>
      expect(read('meta_data.json')).to.include({ hostname: 'desk-1', admin_pass: password })
      expect(JSON.stringify(read('network_data.json'))).to.contain(record.ipv4)
      expect(lstatSync(place).mode & 0o077).to.equal(0)
      // This file is in snapshots and backups. The password in it is therefore encrypted with the key of the host.
      const told = readFileSync(join(volumeOf(uuid), 'instance.json'), 'utf8')
      expect(told).to.contain('sealedPassword').and.not.contain(password)
      const [pid] = readGroupPids(groupOf(uuid)).filter((one) => commandOf(one).startsWith('qemu'))
      expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).to.contain('ide-cd,bus=ide.1,drive=drivers')
      const image = await context.machines.findDriver('kvm')!.screenshot(context.machines.of(record))
      expect(image.toString('latin1', 1, 4)).to.equal('PNG')
      // The image is declared as Windows but contains the Linux of the other tests. It runs without using the CD.
      await waitFor(async () => (await pings(record.ipv4)) || (await usesProcessor(uuid)), {
        what: 'a sign of life',
      })
    })

    it('sets a new password with its guest agent, and reports an error if the user does not exist', async () => {
      const order = resetPasswordOrder(uuid, { password: 'Another-Pass-2' }).order!
      const asked = { operationId: randomUUID(), requestedBy: 'test', order }
      const { operation } = await real.domain.orders.submit(asked)
      const ended = await real.domain.engine.wait(operation.id)
      // The image is declared as Windows but contains Linux, where the guest agent finds no user Administrator.
      expect([ended.status, ended.errorCode]).to.deep.equal(['failed', 'guest_refused'])
      await real.done(powerOrder('stop', uuid).order)
      const again = await real.domain.orders.submit({ ...asked, operationId: randomUUID() })
      expect((await real.domain.engine.wait(again.operation.id)).errorCode).to.equal('guest_refused')
    })
  })

  async function usesProcessor(uuid: string): Promise<boolean> {
    const { context } = real.domain
    const driver = context.machines.findDriver('kvm')!
    const found = (await driver.observe()).find((one) => one.uuid === uuid)
    const { cpuUsec } = await driver.usage(context.machines.of(real.record(uuid)), found!.pid!)
    return cpuUsec > 3_000_000
  }
})

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
}

async function pings(address: string): Promise<boolean> {
  try {
    execFileSync('ping', ['-c', '1', '-W', '1', address], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}
