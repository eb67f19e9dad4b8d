import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { AgentConfigSchema } from '../../agent/config.js'
import { Closers } from '../../agent/daemon/closers.js'
import { openDomain } from '../../agent/daemon/domain.js'
import { PoolImages } from '../../agent/images/pool.js'
import { fetchSettings } from '../../agent/images/image-settings.js'
import { Orders } from '../../agent/operations/orders.js'
import { openPool, type Pool } from '../../agent/storage/pool.js'
import { Trash } from '../../agent/storage/trash.js'
import { validateConfig } from '../../shared/config.js'
import { fillBusyboxTree } from '../support/guests/busybox-image.js'
import { ImageServer } from '../support/guests/image-server.js'
import { MemoryHost } from '../support/memory/memory-host.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operations/operation-matrix.js'
import { silentLog } from '../support/gateway/redis.js'
import { scratchDirectory, testStorage } from '../support/scratch.js'

const id = 'alpine-3.22'

/** Uses a real pool, and an image server on loopback. After each fault the image is complete or absent. */
describe('operations on images, on a real host', function () {
  const scratch = scratchDirectory('btest-image-faults')
  let pool: Pool
  let server: ImageServer

  before(async function () {
    pool = await openPool(testStorage(scratch.path))
    server = await ImageServer.start()
    const root = `${scratch.path}/root`
    mkdirSync(root)
    fillBusyboxTree(root, id)
    server.add('root.tar.xz', execFileSync('tar', ['--create', '--xz', '-C', root, '.'], { maxBuffer: 2 ** 28 }))
    server.offered.push({ distro: 'alpine', release: '3.22', file: 'root.tar.xz' })
  })
  after(async () => {
    await server.close()
    scratch.wipe()
  })

  describeOperationMatrix('the download of an image', { steps: ['image'], undone: ['image'], prepare: () => prepare() })

  async function prepare(): Promise<MatrixSubject> {
    const directory = mkdtempSync(`${scratch.path}/agent-`)
    const given = { state_dir: directory, run_dir: join(directory, 'run'), images: server.settings }
    const config = validateConfig(AgentConfigSchema, given, 'test')
    const trash = new Trash(pool, silentLog)
    const images = new PoolImages({
      pool,
      trash,
      mirror: server.url,
      hostIdBase: 4_000_000_000,
      readBound: async () => 2 ** 30,
      fetch: {
        ...fetchSettings(config.images),
        directory: pool.downloads,
        readFreeBytes: async () => 2 ** 40,
      },
    })
    const closers = new Closers()
    const host = { ...new MemoryHost().open(config), images }
    const domain = await openDomain(host, { config, log: silentLog }, closers)
    await domain.images.sweep()
    domain.engine.recover()
    return {
      changes: domain.changes,
      definition: domain.kinds.imageDownload,
      submit: async (engine) => {
        const order = { $case: 'imageDownload', value: { templateId: id } } as const
        const orders = new Orders(engine, domain.kinds)
        const asked = { operationId: randomUUID(), requestedBy: 'test', order }
        return (await orders.submit(asked)).operation
      },
      inventory: async () => {
        await trash.settled()
        const { available, downloading } = domain.images.get(id)
        const mark = join(pool.images, id, 'etc/template')
        return {
          available,
          downloading,
          images: readdirSync(pool.images),
          downloads: readdirSync(pool.downloads),
          content: existsSync(mark) ? readFileSync(mark, 'utf8') : undefined,
        }
      },
      destroy: async () => {
        await domain.images.takeBack(id)
        await trash.settled()
        await closers.run()
        rmSync(directory, { recursive: true, force: true })
      },
    }
  }
})
