import { execFileSync } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { hostArch } from '../../agent/images/catalog.js'
import type { AddCustomImageRequest, ImageServiceClient } from '../../proto/gen/berth/agent/v1/image.js'
import type { OperationServiceClient } from '../../proto/gen/berth/agent/v1/operation.js'
import { call, createGuest, createRequest, operationDone, operationEnded, submit } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { kvm, machineAt } from '../support/guests/guest-kinds.js'
import { ImageServer } from '../support/guests/image-server.js'
import { scratchDirectory } from '../support/scratch.js'
import { sh } from '../support/sh.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { tinyDisk } from '../support/guests/tiny-image.js'
import { waitFor } from '../support/wait.js'

/** Tests the way from a URL on loopback to a running virtual machine. kvm-disks.test.ts tests disk headers. */
describe('disk images from a URL', function () {
  const scratch = scratchDirectory('btest-kvm-images')
  let agent: AgentProcess
  let server: ImageServer
  let operations: OperationServiceClient
  let images: ImageServiceClient

  before(async () => {
    server = await ImageServer.start()
    agent = await AgentProcess.create('kvi', { images: { ...server.settings, max_image_gb: 1 } })
    await agent.start()
    await agent.ready()
    operations = agent.operations()
    images = agent.images()
  })
  after(async () => {
    for (const client of [operations, images]) client?.close()
    await agent?.destroy()
    await server?.close()
    scratch.wipe()
  })
  afterEach(() => void (server.manners = {}))

  const imagesOf = (name = ''): string => join(agent.directory, 'pool/images', name)
  const downloads = (): string => join(agent.directory, 'pool/downloads')
  const left = (): string[] => [
    ...readdirSync(downloads()),
    ...readdirSync(imagesOf()).filter((name) => name.startsWith('.')),
  ]

  async function addCustom(content: Buffer, fields: Partial<AddCustomImageRequest> = {}): Promise<string> {
    const id = `custom-${randomUUID().slice(0, 8)}`
    const request = {
      id,
      virtualization: 'kvm',
      name: id,
      description: '',
      os: 'linux',
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

  async function download(templateId: string): Promise<string> {
    const operationId = randomUUID()
    const order = { $case: 'imageDownload', value: { templateId } } as const
    await submit(operations, { operationId, requestedBy: 'test', order })
    return operationId
  }

  /** Converts the disk `tinyDisk`. @param args options of `qemu-img convert` */
  function converted(...args: string[]): Buffer {
    const file = join(scratch.path, randomUUID())
    execFileSync('qemu-img', ['convert', '-f', 'raw', ...args, tinyDisk(), file])
    return readFileSync(file)
  }

  it('are downloaded over several connections, stored read-only without copy-on-write, and boot', async () => {
    const id = await addCustom(converted('-O', 'qcow2', '-c'))
    server.manners = { cutAfter: 5_000_000 }
    const request = createRequest(1, 'vm-1', { ...kvm.spec, templateId: id })
    const { guest } = await createGuest(operations, request)
    await operationDone(operations, request.operationId)
    expect(server.asked.some((asked) => asked.includes('bytes='))).to.equal(true)
    expect(await sshInto(machineAt(guest!.ipv4), 'hostname; cat /sys/block/vda/size')).to.equal('vm-1\n2097152')
    expect(sh('btrfs', 'property', 'get', imagesOf(id), 'ro')).to.equal('ro=true\n')
    expect(sh('lsattr', imagesOf(`${id}/disk.raw`))).to.match(/^\S*C/)
    expect(left()).to.deep.equal([])
    await call(images.removeCustomImage.bind(images), { id })
    expect(existsSync(imagesOf(id))).to.equal(false)
    expect(await sshInto(machineAt(guest!.ipv4), 'echo on')).to.equal('on')
  })

  it('are completed by the restarted agent if the agent was killed during the download', async () => {
    const id = await addCustom(converted('-O', 'qcow2'))
    server.manners = { stallAfter: 1_000_000 }
    const operation = await download(id)
    const sizeOf = (): number => statSync(join(downloads(), id), { throwIfNoEntry: false })?.size ?? 0
    await waitFor(() => sizeOf() === 1_000_000, { what: 'the download in the middle' })
    await agent.kill()
    server.manners = {}
    await agent.start()
    await agent.ready()
    await operationDone(operations, operation)
    expect([left(), statSync(imagesOf(`${id}/disk.raw`)).size]).to.deep.equal([[], statSync(tinyDisk()).size])
    await call(images.removeCustomImage.bind(images), { id })
  })

  it('can be imported from the upload directory', async () => {
    const packed = join(scratch.path, 'tiny.qcow2')
    execFileSync('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', tinyDisk(), packed])
    execFileSync('zstd', ['-q', packed])
    const [uploads, content] = [join(agent.directory, 'state/uploads'), readFileSync(`${packed}.zst`)]
    const url = 'upload:tiny.qcow2.zst'
    const id = await addCustom(content, { url })
    expect((await operationEnded(operations, await download(id))).errorCode).to.equal('upload_missing')
    writeFileSync(join(uploads, 'tiny.qcow2.zst'), content)
    await operationDone(operations, await download(id))
    expect(readFileSync(imagesOf(`${id}/disk.raw`)).equals(readFileSync(tinyDisk()))).to.equal(true)
    await call(images.removeCustomImage.bind(images), { id })
  })

  const qcow2 = (name: string, ...args: string[]): Buffer => {
    const file = join(scratch.path, name)
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', ...args.slice(0, -1), file, args.at(-1)!])
    return readFileSync(file)
  }
  const wrong: Record<string, () => { content: Buffer; fields?: Partial<AddCustomImageRequest>; code: string }> = {
    'do not have the expected checksum': () => ({
      content: converted('-O', 'qcow2'),
      fields: { sha256: '0'.repeat(64) },
      code: 'checksum_mismatch',
    }),
    'contain no disk': () => ({ content: randomBytes(100_000), code: 'image_invalid' }),
    'refer to another file': () => ({
      content: qcow2('backing', '-F', 'raw', '-b', '/etc/shadow', '1M'),
      code: 'image_invalid',
    }),
    'exceed the size limit': () => ({ content: qcow2('large', '2G'), code: 'image_too_large' }),
    'contain no system that can boot': () => ({ content: Buffer.alloc(1_000_000), code: 'image_invalid' }),
  }
  for (const [what, make] of Object.entries(wrong))
    it(`are rejected without a trace if they ${what}`, async () => {
      const { content, fields = {}, code } = make()
      const id = await addCustom(content, fields)
      const { errorCode } = await operationEnded(operations, await download(id))
      expect([errorCode, left(), existsSync(imagesOf(id))]).to.deep.equal([code, [], false])
      await call(images.removeCustomImage.bind(images), { id })
    })
})
