import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino, type Logger } from 'pino'
import { RedisProcess } from '../../../gateway/store/redis-process.js'
import { Store } from '../../../gateway/store/store.js'
import { waitFor } from '../wait.js'

const program = '/usr/bin/redis-server'
/** Parent directory, in memory if possible. On a busy disk, Redis may not answer for 1.2 s and count as down. */
const directories = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

export const silentLog: Logger = pino({ level: process.env['BTEST_LOG'] ?? 'silent' }, pino.destination(2))

/** A real private Redis with a directory and a socket of its own. */
export interface TestRedis {
  readonly process: RedisProcess
  readonly url: string
  /** The state_dir of the instance. The run_dir below it contains the socket. */
  readonly stateDir: string
  readonly runDir: string
  /** Opens a store and connects it. The store is closed together with the server. */
  openStore(prefix?: string): Promise<Store>
  pid(): Promise<number>
  /** Returns the content of the append-only files as Latin-1 text. */
  readAof(): Promise<string>
  /** Kills the server and restarts it without data. Resolves when the `Store`s of the test have reconnected. */
  wipe(): Promise<void>
  /** Stops the server and removes its directory. */
  stop(): Promise<void>
}

export async function startTestRedis(options: { extraConfig?: string[]; stateDir?: string } = {}): Promise<TestRedis> {
  const stateDir = options.stateDir ?? (await redisDirectory())
  const runDir = join(stateDir, 'run')
  const server = new RedisProcess({
    program,
    stateDir,
    runDir,
    log: silentLog,
    extraConfig: options.extraConfig ?? [],
  })
  await server.start()
  const stores: Store[] = []
  return {
    process: server,
    url: server.url,
    stateDir,
    runDir,
    openStore: async (prefix = 'btest:') => {
      const store = new Store({ url: server.url, prefix, log: silentLog })
      stores.push(store)
      store.start()
      await waitFor(() => store.ready(), { what: 'store connected' })
      return store
    },
    pid: async () => {
      const pid = await server.findPid()
      if (pid === undefined) throw new Error('no redis-server')
      return pid
    },
    readAof: async () => readDirectoryText(join(stateDir, 'redis', 'appendonlydir')),
    wipe: async () => {
      const before = await server.findPid()
      await rm(join(stateDir, 'redis', 'appendonlydir'), { recursive: true })
      if (before !== undefined) process.kill(before, 'SIGKILL')
      const isAnother = async (): Promise<boolean> => ![undefined, before].includes(await server.findPid())
      await waitFor(isAnother, { what: 'another server' })
      await waitFor(() => stores.every((store) => store.ready()), { what: 'stores connected' })
    },
    stop: async () => {
      await Promise.all(stores.map((store) => store.close()))
      await server.stop()
      await rm(stateDir, { recursive: true, force: true })
    },
  }
}

/** Kills the Redis server of a store. Resolves when the store has noticed this and has not yet connected again. */
export async function killUnder(store: Store, redis: TestRedis): Promise<void> {
  const lost = new Promise<void>((resolve) => store.on('down', resolve))
  process.kill(await redis.pid(), 'SIGKILL')
  await lost
}

/** Creates a new directory for a Redis. Before this, it kills and removes what earlier test processes have left. */
export async function redisDirectory(): Promise<string> {
  for (const name of await readdir(directories)) {
    const pid = /^btest-redis-(\d+)-/.exec(name)?.[1]
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue
    const stateDir = join(directories, name)
    const left = new RedisProcess({ program, stateDir, runDir: join(stateDir, 'run'), log: silentLog })
    await left.stop()
    spawnSync('umount', ['--lazy', stateDir]) // a test may have mounted a small file system at stateDir
    await rm(stateDir, { recursive: true, force: true })
  }
  return mkdtemp(join(directories, `btest-redis-${process.pid}-`))
}

async function readDirectoryText(directory: string): Promise<string> {
  const names = await readdir(directory)
  const texts = await Promise.all(names.map((name) => readFile(join(directory, name), 'latin1')))
  return texts.join('')
}
