import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { appendFile, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import { Store } from '../../gateway/store/store.js'
import { redisDirectory, silentLog, startTestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const record = '*3\r\n$3\r\nSET\r\n$7\r\nbtest:x\r\n$2\r\nno\r\n'
const multi = '*1\r\n$5\r\nMULTI\r\n'

interface Files {
  /** Append-only file with the changes since the base file. */
  readonly increment: string
  readonly base: string
  readonly manifest: string
  readonly config: string
}

interface Tear {
  readonly name: string
  readonly tear: (files: Files) => Promise<unknown>
  /** Number of bytes at the end that the gateway must cut off, and log as `cutBytes`. Default: 0. */
  readonly cut?: number
}

const flip = async (path: string, fromEnd: number): Promise<void> => {
  const bytes = await readFile(path)
  bytes[bytes.length - fromEnd]! ^= 0x40
  await writeFile(path, bytes)
}
const halve = async (path: string): Promise<void> => truncate(path, Math.floor((await stat(path)).size / 2))

const repaired: Tear[] = [
  {
    name: 'zeros at the end of the append-only file',
    tear: ({ increment }) => appendFile(increment, Buffer.alloc(4096)),
    cut: 4096,
  },
  {
    name: 'an incomplete record at the end of the append-only file',
    tear: ({ increment }) => appendFile(increment, record.slice(0, 20)),
    cut: 20,
  },
  {
    name: 'an incomplete record followed by zeros in the append-only file',
    tear: ({ increment }) => appendFile(increment, record.slice(0, 33) + '\0'.repeat(300)),
    cut: 333,
  },
  {
    name: 'zeros in place of the last value in the append-only file',
    tear: ({ increment }) => appendFile(increment, record.slice(0, 26) + '$4000\r\n' + '\0'.repeat(100)),
    cut: 133,
  },
  {
    name: 'an incomplete transaction in the append-only file',
    tear: ({ increment }) => appendFile(increment, multi + record),
    cut: multi.length + record.length,
  },
  {
    name: 'an incomplete transaction followed by zeros in the append-only file',
    tear: ({ increment }) => appendFile(increment, multi + record + record.slice(0, 9) + '\0'.repeat(50)),
    cut: multi.length + record.length + 59,
  },
  { name: 'a damaged byte at the end of the append-only file', tear: ({ increment }) => flip(increment, 1) },
  { name: 'an empty manifest', tear: ({ manifest }) => writeFile(manifest, '') },
  { name: 'a manifest without its second half', tear: ({ manifest }) => halve(manifest) },
  { name: 'a manifest full of zero bytes', tear: ({ manifest }) => writeFile(manifest, Buffer.alloc(90)) },
  {
    name: 'a manifest with zeros at its end',
    tear: ({ manifest }) => appendFile(manifest, Buffer.alloc(90)),
  },
  { name: 'a missing manifest', tear: ({ manifest }) => rm(manifest) },
  { name: 'a configuration file without its second half', tear: ({ config }) => halve(config) },
  { name: 'an empty configuration file', tear: ({ config }) => writeFile(config, '') },
  { name: 'a missing configuration file', tear: ({ config }) => rm(config) },
]

const refused: (Tear & { readonly says: RegExp; readonly command: RegExp })[] = [
  {
    name: 'a damaged byte in the last record of the append-only file',
    tear: ({ increment }) => flip(increment, '$8\r\nvalue 19\r\n'.length),
    says: /incr\.aof is damaged at byte \d+/,
    command: /yes \| redis-check-aof --fix '.*manifest'$/,
  },
  {
    name: 'a damaged byte in the middle of the append-only file',
    tear: async ({ increment }) => {
      const text = await readFile(increment, 'latin1')
      await writeFile(increment, text.replace('*3\r\n', '*3\r\x0b'), 'latin1')
    },
    says: /may contain changes that were confirmed to clients/,
    command: /yes \| redis-check-aof --fix '.*manifest'$/,
  },
  {
    name: 'zeros in the middle of the append-only file',
    tear: async ({ increment }) => {
      const file = await open(increment, 'r+')
      await file.write(Buffer.alloc(60), 0, 60, 100)
      await file.close()
    },
    says: /may contain changes that were confirmed to clients/,
    command: /yes \| redis-check-aof --fix '.*manifest'$/,
  },
  {
    name: 'a base file without its second half',
    tear: ({ base }) => halve(base),
    says: /are damaged/,
    command: /mv '.*appendonlydir' '.*appendonlydir\.damaged'$/,
  },
  {
    name: 'a missing append-only file',
    tear: ({ increment }) => rm(increment),
    says: /cannot be read/,
    command: /mv '.*' '.*\.damaged'/,
  },
  {
    name: 'two base files but no manifest',
    tear: async ({ manifest, base }) => {
      await writeFile(base.replace('.1.base', '.2.base'), await readFile(base))
      await rm(manifest)
    },
    says: /cannot be rebuilt/,
    command: /mv '.*appendonlydir' '.*appendonlydir\.damaged'$/,
  },
]

describe('the store after a power cut', function () {
  let stateDir: string
  let files: Files
  let logged: { msg: string; cutBytes?: number; copy?: string; file?: string }[]
  let server: RedisProcess | undefined
  let store: Store | undefined

  const start = (): RedisProcess => {
    const log = pino(
      { level: 'warn' },
      { write: (line: string) => logged.push(JSON.parse(line) as (typeof logged)[0]) },
    )
    return new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir: `${stateDir}/run`, log })
  }
  const connect = (redis: RedisProcess): Store => {
    store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog, serverProblem: () => redis.problem })
    store.start()
    return store
  }
  const readAll = async (connected: Store): Promise<(string | null)[]> =>
    connected.run('read', (client) => client.mGet(Array.from({ length: 20 }, (_, n) => `btest:${n}`)))

  beforeEach(async () => {
    logged = []
    const redis = await startTestRedis()
    stateDir = redis.stateDir
    const connected = await redis.openStore()
    for (let n = 0; n < 20; n++) await connected.run('set', (client) => client.set(`btest:${n}`, `value ${n}`))
    await connected.close()
    await redis.process.stop()
    const directory = join(stateDir, 'redis/appendonlydir')
    const nameOf = async (part: string): Promise<string> =>
      join(
        directory,
        (await readdir(directory)).find((name) => name.includes(part))!,
      )
    files = {
      increment: await nameOf('.incr.'),
      base: await nameOf('.base.'),
      manifest: await nameOf('.manifest'),
      config: join(stateDir, 'redis/redis.conf'),
    }
  })
  afterEach(async () => {
    await store?.close()
    await server?.stop()
    store = server = undefined
    await rm(stateDir, { recursive: true, force: true })
  })

  for (const { name, tear, cut = 0 } of repaired)
    it(`repairs itself with all acknowledged data: ${name}`, async () => {
      await tear(files)
      server = start()
      await server.start()
      const connected = connect(server)
      await waitFor(() => connected.ready(), { what: () => `connected: ${connected.reason()}` })
      expect(await readAll(connected)).to.deep.equal(Array.from({ length: 20 }, (_, n) => `value ${n}`))
      expect(await connected.run('get', (client) => client.get('btest:x'))).to.equal(null)
      const report = logged.find(({ cutBytes }) => cutBytes !== undefined)
      expect(report?.cutBytes ?? 0).to.equal(cut)
      if (report?.copy === undefined) return
      expect((await stat(report.copy)).size - (await stat(files.increment)).size).to.equal(cut)
      expect(report.msg).to.include(`${cut} bytes`)
    })

  for (const { name, tear, says, command } of refused)
    it(`refuses to start and names the command for the repair: ${name}`, async () => {
      await tear(files)
      const before = await contentOf(stateDir)
      server = start()
      void server.start().catch(() => undefined)
      const connected = connect(server)
      await waitFor(() => says.test(connected.reason()), { what: () => `a reason: ${connected.reason()}` })
      expect(connected.ready()).to.equal(false)
      expect(await contentOf(stateDir), 'nothing is changed').to.deep.equal(before)
      const [given = ''] = command.exec(connected.reason().trim()) ?? []
      expect(given, connected.reason()).not.to.equal('')
      execFileSync('sh', ['-c', given])
      await waitFor(() => connected.ready(), {
        what: () => `connected after ${given}: ${connected.reason()}`,
      })
    })

  it('waits for space on a full disk, reports this wait, and starts when there is space', async () => {
    const directory = await redisDirectory()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'btest', directory])
    stateDir = directory
    try {
      const ballast = join(directory, 'ballast')
      await writeFile(ballast, Buffer.alloc(2 << 20)).catch(() => undefined)
      server = start()
      void server.start().catch(() => undefined)
      const connected = connect(server)
      await waitFor(() => /ENOSPC|no space left/i.test(connected.reason()), {
        what: () => connected.reason(),
      })
      await new Promise((resolve) => setTimeout(resolve, 2000))
      expect(connected.ready()).to.equal(false)
      expect(connected.reason()).to.match(/redis-server cannot be started: .*no space left/i)
      await rm(ballast)
      await waitFor(() => connected.ready(), { what: 'connected once there is space' })
      await connected.run('set', (client) => client.set('btest:a', 'written'))
      expect(connected.reason()).to.equal('')
    } finally {
      await store?.close()
      await server?.stop()
      execFileSync('umount', ['-l', directory])
    }
  })
})

/** The content of each append-only file, by its name. */
async function contentOf(stateDir: string): Promise<Record<string, string>> {
  const directory = join(stateDir, 'redis/appendonlydir')
  const names = (await readdir(directory)).sort()
  const all = names.map(async (name) => [name, await readFile(join(directory, name), 'latin1')] as const)
  return Object.fromEntries(await Promise.all(all))
}
