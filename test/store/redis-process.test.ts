import { expect } from 'chai'
import { execFileSync, spawn } from 'node:child_process'
import { appendFile, chmod, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import { moduleUrl, nodeOptions } from '../support/programs.js'
import { redisDirectory, silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

describe('the private Redis server', () => {
  let redis: TestRedis
  beforeEach(async () => {
    redis = await startTestRedis()
  })
  afterEach(async () => redis.stop())

  const another = (extraConfig: string[] = []) =>
    new RedisProcess({
      program: '/usr/bin/redis-server',
      stateDir: redis.stateDir,
      runDir: redis.runDir,
      log: silentLog,
      extraConfig,
    })

  it('has a directory, socket and configuration that only its owner can access', async () => {
    const modes = await Promise.all(
      [
        join(redis.stateDir, 'redis'),
        redis.runDir,
        join(redis.runDir, 'redis.sock'),
        join(redis.stateDir, 'redis/redis.conf'),
      ].map(async (path) => ((await stat(path)).mode & 0o777).toString(8)),
    )
    expect(modes).to.deep.equal(['700', '700', '700', '600'])
  })

  it('refuses commands that could delete its content, change its configuration or run scripts', async () => {
    const store = await redis.openStore()
    for (const command of [
      ['FLUSHALL'],
      ['CONFIG', 'GET', '*'],
      ['KEYS', '*'],
      ['EVAL', 'return 1', '0'],
      ['SHUTDOWN'],
      ['DEBUG', 'SLEEP', '0'],
    ]) {
      const refusal = await store.client.sendCommand(command).then(() => '', String)
      expect(refusal, command[0]).to.match(/NOPERM|DEBUG command not allowed/)
    }
  })

  it('is started again with all acknowledged data if it is killed', async () => {
    const store = await redis.openStore()
    await store.run('set', (client) => client.set('btest:a', 'kept'))
    const pid = await redis.pid()
    process.kill(pid, 'SIGKILL')
    await waitFor(() => !store.ready(), { what: 'loss noticed' })
    await waitFor(() => store.ready(), { what: 'connected again' })
    expect(await redis.pid()).not.to.equal(pid)
    expect(await store.run('get', (client) => client.get('btest:a'))).to.equal('kept')
  })

  it('is also used by a second gateway process, which starts no other server and can stop this server', async () => {
    const pid = await redis.pid()
    const second = another()
    await second.start()
    expect(await second.findPid()).to.equal(pid)
    await second.stop()
    // The first gateway process may have replaced the stopped server by another one already.
    expect(await second.findPid()).not.to.equal(pid)
  })

  it('can be stopped completely, even while it starts', async () => {
    for (let round = 0; round < 20; round++) {
      const second = another()
      await second.start()
      await delay(round)
      await second.stop()
    }
  })

  it('keeps running if its gateway is killed, and is used by the next gateway, which restarts it after a crash', async () => {
    const program = join(redis.stateDir, 'owner.mjs')
    const stateDir = await redisDirectory()
    const module = moduleUrl('gateway/store/redis-process.ts')
    await writeFile(
      program,
      `import { RedisProcess } from ${JSON.stringify(module)}
       const log = { info() {}, debug() {}, warn() {}, error() {} }
       const stateDir = ${JSON.stringify(stateDir)}
       const redis = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir: stateDir + '/run', log })
       void redis.start().then(() => process.stdout.write('up'))`,
    )
    const owner = spawn(process.execPath, [...nodeOptions, program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => owner.stdout.once('data', resolve))
    owner.kill('SIGKILL')
    const heir = new RedisProcess({
      program: '/usr/bin/redis-server',
      stateDir,
      runDir: `${stateDir}/run`,
      log: silentLog,
    })
    try {
      const pid = await heir.findPid()
      expect(pid).to.be.a('number')
      await heir.start()
      expect(await heir.findPid()).to.equal(pid)
      process.kill(pid!, 'SIGKILL')
      await waitFor(async () => ![undefined, pid].includes(await heir.findPid()), { what: 'a new server' })
    } finally {
      await heir.stop()
      await rm(stateDir, { recursive: true, force: true })
    }
  })

  it('is restarted with its data if its configuration changes', async () => {
    const store = await redis.openStore()
    await store.run('set', (client) => client.set('btest:a', 'kept'))
    const pid = await redis.pid()
    const upgraded = another(['maxclients 100'])
    await upgraded.start()
    expect(await upgraded.findPid()).not.to.equal(pid)
    await waitFor(() => store.ready(), { what: 'connected again' })
    expect(await store.run('get', (client) => client.get('btest:a'))).to.equal('kept')
    await upgraded.stop()
  })

  it('starts even if its append-only file ends within a record', async () => {
    const store = await redis.openStore()
    for (let i = 0; i < 20; i++) await store.run('set', (client) => client.set(`btest:${i}`, 'x'))
    await redis.process.stop()
    const directory = join(redis.stateDir, 'redis/appendonlydir')
    const file = (await readdir(directory)).find((name) => name.endsWith('.incr.aof'))!
    await appendFile(join(directory, file), '*3\r\n$3\r\nSET\r\n$7\r\nbte')
    const again = another()
    await again.start()
    await waitFor(() => store.ready(), { what: 'connected again' })
    expect(await store.run('get', (client) => client.get('btest:19'))).to.equal('x')
    await again.stop()
  })

  it('is started again after growing delays if it repeatedly ends immediately', async function () {
    const stateDir = await redisDirectory()
    const program = join(stateDir, 'redis-server')
    await writeFile(program, `#!/bin/sh\ndate +%s%3N >> ${stateDir}/runs\nexit 1\n`)
    await chmod(program, 0o755)
    const failing = new RedisProcess({ program, stateDir, runDir: `${stateDir}/run`, log: silentLog })
    const started = failing.start().catch(() => undefined)
    await waitFor(async () => (await countLines(`${stateDir}/runs`)) >= 4, { what: 'a fourth try' })
    const triedMs = (await readFile(`${stateDir}/runs`, 'utf8')).trim().split('\n').map(Number)
    for (const [failures, leastMs] of [100, 200, 400].entries())
      expect(triedMs[failures + 1]! - triedMs[failures]!, `after ${failures + 1}`).to.be.at.least(leastMs)
    await failing.stop()
    await started
    await rm(stateDir, { recursive: true })
  })

  it('rejects writes while the disk is full, loses no acknowledged write, and recovers', async function () {
    const stateDir = await redisDirectory()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'btest', stateDir])
    const small = await startTestRedis({ stateDir })
    try {
      const store = await small.openStore()
      const taken: string[] = []
      await writeFile(join(stateDir, 'ballast'), Buffer.alloc(8 << 20)).catch(() => undefined)
      const write = async (i: number) => {
        await store.run('write', (client) => client.set(`btest:${i}`, 'x'.repeat(1000)))
        taken.push(`btest:${i}`)
      }
      let failure: unknown
      for (let i = 0; failure === undefined && i < 5000; i++) failure = await write(i).catch((error: unknown) => error)
      expect(failure).to.have.property('code', 'store_unavailable')
      await rm(join(stateDir, 'ballast'))
      const canWrite = (): Promise<boolean> =>
        write(9999).then(
          () => true,
          () => false,
        )
      await waitFor(async () => store.ready() && (await canWrite()))
      for (const key of taken) expect(await store.run('read', (client) => client.get(key)), key).to.have.length(1000)
    } finally {
      await small.process.stop()
      execFileSync('umount', ['-l', stateDir])
      await small.stop()
    }
  })
})

async function countLines(path: string): Promise<number> {
  return (await readFile(path, 'utf8').catch(() => '')).split('\n').length - 1
}
