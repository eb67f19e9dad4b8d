import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { AddCustomImageRequest, ImageServiceClient } from '../../proto/gen/berth/agent/v1/image.js'
import {
  type Operation,
  type OperationServiceClient,
  type SubmitOperationRequest,
} from '../../proto/gen/berth/agent/v1/operation.js'
import { hostArch } from '../../agent/images/catalog.js'
import {
  call,
  createGuest,
  createRequest,
  operationDone,
  operationEnded,
  powerOrder,
  submit,
} from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { unpackTestImage } from '../support/guests/debian-image.js'
import { fillBusyboxTree } from '../support/guests/busybox-image.js'
import { ImageServer } from '../support/guests/image-server.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { waitFor } from '../support/wait.js'

const tag = 'img'
const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUkSXm9C1Cx4Vf0VbMT4KjEVxmeDbtC5VxY3l5a3tmk someone@somewhere'

const tarOptions = ['--numeric-owner', '--xattrs', '--xattrs-include=*', '--acls', '--zstd']

describe('foreign images', function () {
  const scratch = scratchDirectory('btest-image-guests')
  const canary = `${scratch.path}/canary`
  let agent: AgentProcess
  let server: ImageServer
  let operations: OperationServiceClient
  let images: ImageServiceClient
  let nextId = 1

  before(async () => {
    server = await ImageServer.start()
    writeFileSync(canary, 'root:x:0:0::/:/bin/sh\n')
    agent = await AgentProcess.create(tag, { images: { ...server.settings, max_image_gb: 1 } })
    await agent.start()
    await agent.ready()
    operations = agent.operations()
    images = agent.images()
  })
  after(async () => {
    await agent.destroy()
    await server.close()
    scratch.wipe()
  })
  afterEach(() => void (server.manners = {}))

  const imagesOf = (name = ''): string => join(agent.directory, 'pool/images', name)
  const left = (): string[] => [
    ...readdirSync(join(agent.directory, 'pool/downloads')),
    ...readdirSync(imagesOf()).filter((name) => name.startsWith('.')),
  ]
  const sizeOf = (name: string): number =>
    statSync(join(agent.directory, 'pool/downloads', name), { throwIfNoEntry: false })?.size ?? 0
  const downloadOrder = (templateId: string): SubmitOperationRequest => ({
    operationId: randomUUID(),
    requestedBy: 'test',
    order: { $case: 'imageDownload', value: { templateId } },
  })
  const download = async (templateId: string): Promise<string> => {
    const order = downloadOrder(templateId)
    await submit(operations, order)
    return order.operationId
  }
  const failed = async (templateId: string): Promise<string> => {
    const ended = await operationEnded(operations, await download(templateId))
    return ended.errorCode || 'done'
  }
  const remove = (templateId: string): Promise<unknown> => call(images.deleteImage.bind(images), { templateId })

  /** Creates an archive of a BusyBox tree. @param add changes the tree before it is archived */
  function archiveOf(name: string, add: (root: string) => void = () => undefined, compress = '--xz'): Buffer {
    const root = `${scratch.path}/${name}`
    mkdirSync(root, { recursive: true })
    fillBusyboxTree(root, name)
    add(root)
    const archive = execFileSync('tar', ['--create', '--numeric-owner', compress, '-C', root, '.'], {
      maxBuffer: 2 ** 30,
    })
    rmSync(root, { recursive: true })
    return archive
  }
  async function addCustom(content: Buffer, fields: Partial<AddCustomImageRequest> = {}): Promise<string> {
    const id = `custom-${randomUUID().slice(0, 8)}`
    const request = {
      id,
      virtualization: 'lxc',
      name: id,
      description: '',
      os: '',
      firmware: '',
      secureBoot: false,
      tpm: false,
      distro: 'test',
      release: '1',
      arch: hostArch,
      variant: '',
      ...server.add(id, content),
      ...fields,
    }
    await call(images.addCustomImage.bind(images), request)
    return id
  }
  const attachArguments = (id: number, command: readonly string[]): string[] => [
    '-P',
    join(agent.directory, 'state/lxc'),
    '-n',
    `x${tag}-${id}`,
    '--clear-env',
    '--',
    ...command,
  ]
  const attach = (id: number, ...command: string[]): string => sh('lxc-attach', ...attachArguments(id, command))
  /** Returns the output of a command in the guest, even if it fails. */
  const tryAttach = (id: number, ...command: string[]): string =>
    spawnSync('lxc-attach', attachArguments(id, command), { encoding: 'utf8' }).stdout
  /** Creates and starts a guest. */
  async function make(templateId: string, spec: object = {}): Promise<{ id: number; uuid: string }> {
    const request = createRequest(nextId++, `img-${nextId}`, { templateId, ...spec })
    await createGuest(operations, request)
    await operationDone(operations, request.operationId)
    return request
  }
  async function drop({ uuid }: { uuid: string }): Promise<void> {
    const order = powerOrder('delete', uuid)
    await submit(operations, order)
    await operationDone(operations, order.operationId)
  }

  describe('from an image server', () => {
    before(() => {
      const archive = archiveOf('alpine', (root) => {
        for (const directory of ['etc/network', 'etc/ssh', 'etc/systemd', 'etc/NetworkManager'])
          mkdirSync(join(root, directory), { recursive: true })
        writeFileSync(join(root, 'etc/network/interfaces'), 'auto eth0\niface eth0 inet dhcp\n')
        writeFileSync(join(root, 'etc/ssh/ssh_host_ed25519_key'), 'shared by all')
        writeFileSync(join(root, 'etc/ssh/sshd_config'), 'PermitRootLogin no\n')
        writeFileSync(join(root, 'etc/machine-id'), 'shared by all')
        writeFileSync(join(root, 'ballast'), randomBytes(4_000_000))
      })
      server.add('alpine.tar.xz', archive)
      server.offered.push({ distro: 'alpine', release: '3.22', file: 'alpine.tar.xz' })
      server.offered.push({ distro: 'fedora', release: '43', file: 'alpine.tar.xz', sha256: '0'.repeat(64) })
    })

    it('are available read-only after the download, and guests boot from them', async () => {
      await operationDone(operations, await download('alpine-3.22'))
      expect(sh('btrfs', 'property', 'get', imagesOf('alpine-3.22'), 'ro')).to.equal('ro=true\n')
      expect(left()).to.deep.equal([])
      const guest = await make('alpine-3.22')
      expect(attach(guest.id, 'cat', '/etc/template')).to.equal('alpine')
      expect(attach(guest.id, 'ip', 'address', 'show', 'eth0')).to.match(/inet 10\.\d+\.\d+\.\d+\//)
      expect(attach(guest.id, 'cat', '/etc/network/interfaces')).not.to.contain('dhcp')
      expect(attach(guest.id, 'cat', '/etc/shadow')).to.match(/^root:\$6\$/m)
      expect(attach(guest.id, 'cat', '/etc/ssh/sshd_config')).to.match(/^PermitRootLogin yes\n/)
      for (const path of ['/etc/ssh/ssh_host_ed25519_key', '/etc/machine-id'])
        expect(attach(guest.id, 'cat', path), path).to.equal('')
      await remove('alpine-3.22')
      expect(existsSync(imagesOf('alpine-3.22'))).to.equal(false)
      expect(attach(guest.id, 'cat', '/etc/template')).to.equal('alpine')
      await drop(guest)
    })

    it('are downloaded for the first guest that needs them', async () => {
      server.manners = { cutAfter: 1_500_000 }
      const guest = await make('alpine-3.22')
      expect(attach(guest.id, 'cat', '/etc/template')).to.equal('alpine')
      await drop(guest)
      await remove('alpine-3.22')
    })

    it('leave nothing behind if their download is canceled', async () => {
      server.manners = { stallAfter: 1_000_000 }
      const operation = await download('alpine-3.22')
      await waitFor(() => left().length > 0 && server.stalled > 0, { what: 'the download in the middle' })
      await call(images.cancelImageDownload.bind(images), { templateId: 'alpine-3.22' })
      expect(left()).to.deep.equal([])
      expect((await stateOf(operation)).status).to.equal('canceled')
      expect(existsSync(imagesOf('alpine-3.22'))).to.equal(false)
    })

    it('are completed by the restarted agent if the agent was killed during the download', async () => {
      server.manners = { stallAfter: 1_000_000 }
      const operation = await download('alpine-3.22')
      await waitFor(() => sizeOf('alpine-3.22') === 1_000_000, { what: 'the download in the middle' })
      await agent.kill()
      server.manners = {}
      server.asked.length = 0
      await agent.start()
      await agent.ready()
      await operationDone(operations, operation)
      expect(server.asked.some((asked) => asked.includes('bytes='))).to.equal(true)
      expect(left()).to.deep.equal([])
      await remove('alpine-3.22')
    })

    it('are never available if their checksum is wrong', async () => {
      expect(await failed('fedora-43')).to.equal('checksum_mismatch')
      expect([left(), existsSync(imagesOf('fedora-43'))]).to.deep.equal([[], false])
    })
  })

  describe('from a URL', () => {
    it('boot with an SSH key, even without a shadow file and a network configuration', async () => {
      const id = await addCustom(archiveOf('plain', (root) => rmSync(join(root, 'etc/shadow')), '--gzip'))
      await operationDone(operations, await download(id))
      const login = { sshAuthMode: 'key', sshPublicKey: publicKey }
      const guest = await make(id, login)
      expect(attach(guest.id, 'cat', '/root/.ssh/authorized_keys')).to.equal(`${publicKey}\n`)
      expect(attach(guest.id, 'ps')).to.match(/\binit\b/)
      await call(images.removeCustomImage.bind(images), { id })
      expect(existsSync(imagesOf(id))).to.equal(false)
      expect(attach(guest.id, 'cat', '/etc/template')).to.equal('plain')
      await drop(guest)
    })

    it('can be exports of LXD or Incus, even in a zip archive', async () => {
      const exported = `${scratch.path}/exported`
      mkdirSync(join(exported, 'rootfs'), { recursive: true })
      fillBusyboxTree(join(exported, 'rootfs'), 'exported')
      writeFileSync(join(exported, 'metadata.yaml'), 'architecture: x86_64\nproperties: {os: test}\n')
      const file = `${scratch.path}/image.tar.lz4`
      sh('tar', '--use-compress-program=lz4', '-cf', file, '-C', exported, 'metadata.yaml', 'rootfs')
      execFileSync('zip', ['-q', '-j', `${file}.zip`, file])
      for (const path of [file, `${file}.zip`]) {
        const id = await addCustom(readFileSync(path))
        await operationDone(operations, await download(id))
        const guest = await make(id)
        expect(attach(guest.id, 'cat', '/etc/template')).to.equal('exported')
        expect(attach(guest.id, 'ls', '/')).to.not.contain('metadata.yaml')
        await drop(guest)
        await call(images.removeCustomImage.bind(images), { id })
      }
    })

    it('can be a complete Debian with an address, a root login and separate host keys for each guest', async () => {
      const root = `${scratch.path}/debian`
      mkdirSync(root)
      await unpackTestImage(root)
      asFromElsewhere(root)
      const content = execFileSync('tar', [...tarOptions, '--create', '-C', root, '.'], {
        maxBuffer: 2 ** 30,
      })
      rmSync(root, { recursive: true })
      const id = await addCustom(content)
      await operationDone(operations, await download(id))
      const [password, guests] = ['correct-Horse-7', []] as [string, { id: number; uuid: string }[]]
      for (let i = 0; i < 2; i++) guests.push(await make(id, { sshAuthMode: 'password', sshPassword: password }))
      const keys: string[] = []
      for (const guest of guests) {
        const state = (): string => tryAttach(guest.id, 'systemctl', 'is-system-running')
        await waitFor(() => /running|degraded/.test(state()), {
          what: () => `boot: ${state()}`,
        })
        expect(tryAttach(guest.id, 'systemctl', 'is-active', 'systemd-networkd', 'ssh')).to.equal('active\nactive\n')
        expect(attach(guest.id, 'networkctl', 'list', '--no-legend', 'eth0')).to.contain('unmanaged')
        expect(attach(guest.id, 'ip', '-4', 'address', 'show', 'eth0')).to.match(/inet 10\.\d+\.\d+\.\d+\//)
        expect(attach(guest.id, 'ip', 'route')).to.match(/^default via 10\./m)
        expect(sshInside(guest.id, password)).to.match(/^img-\d+\n$/)
        keys.push(
          attach(guest.id, 'cat', '/etc/ssh/ssh_host_ed25519_key.pub'),
          attach(guest.id, 'cat', '/etc/machine-id'),
        )
      }
      expect(new Set(keys).size).to.equal(4)
      for (const guest of guests) await drop(guest)
      await call(images.removeCustomImage.bind(images), { id })
    })

    /** Makes the image foreign: without Berth's units and settings, but with DHCP and the builder's SSH host keys. */
    function asFromElsewhere(root: string): void {
      const units = join(root, 'etc/systemd/system')
      for (const name of ['ssh-host-keys.service', 'ssh.service.wants/ssh-host-keys.service']) rmSync(join(units, name))
      for (const name of ['systemd-networkd.service', 'systemd-networkd.socket']) rmSync(join(units, name))
      symlinkSync(
        '/lib/systemd/system/systemd-networkd.service',
        join(units, 'multi-user.target.wants/systemd-networkd.service'),
      )
      writeFileSync(join(root, 'etc/systemd/network/10-eth0.network'), '[Match]\nName=eth0\n\n[Network]\nDHCP=yes\n')
      rmSync(join(root, 'etc/ssh/sshd_config.d/10-guest.conf'))
      writeFileSync(join(root, 'etc/ssh/sshd_config.d/50-cloud.conf'), 'PasswordAuthentication no\n')
      for (const type of ['rsa', 'ecdsa', 'ed25519'])
        sh('ssh-keygen', '-q', '-t', type, '-N', '', '-f', join(root, `etc/ssh/ssh_host_${type}_key`))
      writeFileSync(join(root, 'etc/machine-id'), `${'ab'.repeat(16)}\n`)
    }

    /** Runs ssh(1) in the network of the guest. */
    function sshInside(id: number, password: string): string {
      const pid = sh('lxc-info', '-P', join(agent.directory, 'state/lxc'), '-n', `x${tag}-${id}`, '-pH').trim()
      const options = ['StrictHostKeyChecking=no', `UserKnownHostsFile=${scratch.path}/known-${id}`]
      const ssh = ['ssh', ...options.flatMap((option) => ['-o', option]), 'root@127.0.0.1', 'hostname']
      return execFileSync('nsenter', ['-t', pid, '-n', 'sshpass', '-p', password, ...ssh], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
      })
    }

    const links = (path: string, target: string) => (root: string) => {
      rmSync(join(root, path), { recursive: true, force: true })
      symlinkSync(target, join(root, path))
    }
    for (const [what, add] of [
      ['a link to a file of the host in place of etc/passwd', links('etc/passwd', canary)],
      ['a link to a directory of the host in place of etc', links('etc', scratch.path)],
      ['no passwd file', (root: string) => rmSync(join(root, 'etc/passwd'))],
      ['a link in place of the home of root', links('root', scratch.path)],
    ] as const)
      it(`are rejected if they have ${what}`, async () => {
        const id = await addCustom(archiveOf(randomUUID(), add))
        const before = readdirSync(scratch.path)
        expect(await failed(id)).to.equal('image_invalid')
        expect(readdirSync(scratch.path)).to.deep.equal(before)
        expect(readFileSync(canary, 'utf8')).to.equal('root:x:0:0::/:/bin/sh\n')
        expect([left(), existsSync(imagesOf(id))]).to.deep.equal([[], false])
      })

    it('change nothing on the host if their configuration files are links', async () => {
      const outside = `${scratch.path}/outside`
      mkdirSync(outside)
      const id = await addCustom(
        archiveOf('links', (root) => {
          for (const path of ['etc/systemd', 'etc/NetworkManager', 'etc/network', 'etc/ssh'])
            symlinkSync(outside, join(root, path))
          symlinkSync(canary, join(root, 'etc/machine-id'))
        }),
      )
      await operationDone(operations, await download(id))
      expect(readdirSync(outside)).to.deep.equal([])
      expect(readFileSync(canary, 'utf8')).to.equal('root:x:0:0::/:/bin/sh\n')
      await call(images.removeCustomImage.bind(images), { id })
    })

    it('are rejected if they are not an archive, or if they are too large', async () => {
      const garbage = await addCustom(randomBytes(100_000))
      expect(await failed(garbage)).to.equal('image_invalid')
      const bomb = await addCustom(
        archiveOf(
          'bomb',
          (root) => sh('dd', 'if=/dev/zero', `of=${root}/zeros`, 'bs=1M', 'count=1500', 'status=none'),
          '--zstd',
        ),
      )
      expect(await failed(bomb)).to.equal('image_too_large')
      expect(left()).to.deep.equal([])
    })

    it('are either complete or absent if the agent is killed at any moment', async () => {
      const archive = archiveOf('many', (root) => {
        for (let i = 0; i < 4000; i++) writeFileSync(join(root, `var/file-${i}`), 'x'.repeat(5000))
      })
      const id = await addCustom(archive)
      const operation = await download(id)
      for (const delayMs of [0, 60, 150, 300]) {
        await waitFor(() => left().length > 0 || existsSync(imagesOf(id)), {
          intervalMs: 1,
          what: 'a download',
        })
        execFileSync('sleep', [String(delayMs / 1000)])
        await agent.kill()
        if (existsSync(imagesOf(id))) expect(readdirSync(imagesOf(`${id}/var`))).to.have.length(4000)
        await agent.start()
        await agent.ready()
        if ((await stateOf(operation)).finishedAtMs > 0) break
      }
      await operationDone(operations, operation)
      expect(readdirSync(imagesOf(`${id}/var`))).to.have.length(4000)
      expect(left()).to.deep.equal([])
      await call(images.removeCustomImage.bind(images), { id })
    })
  })

  const stateOf = async (id: string): Promise<Operation> =>
    (await call(operations.getOperation.bind(operations), { id })).operation!
})
