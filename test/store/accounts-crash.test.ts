import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { expect } from 'chai'
import { createAccounts } from '../../gateway/accounts/accounts.js'
import { defaultLoginRetention } from '../../gateway/accounts/login-log.js'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import { Store } from '../../gateway/store/store.js'
import type { AcknowledgedAccount } from '../support/gateway/accounts-worker.js'
import { nodeOptions, programPath } from '../support/programs.js'
import { redisDirectory, silentLog } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const kills = 8

describe('accounts that change while gateway and Redis are killed', () => {
  let stateDir: string
  let redis: RedisProcess
  let worker: ChildProcess | undefined
  const last = new Map<number, AcknowledgedAccount>()
  let messages = 0
  before(async () => {
    stateDir = await redisDirectory()
    const runDir = `${stateDir}/run`
    redis = new RedisProcess({ program: '/usr/bin/redis-server', stateDir, runDir, log: silentLog })
  })
  after(async () => {
    worker?.kill('SIGKILL')
    await redis.stop()
    await rm(stateDir, { recursive: true, force: true })
  })

  const startWorker = (): ChildProcess => {
    const program = programPath('test/support/gateway/accounts-worker.ts')
    const child = fork(program, [stateDir], { execArgv: [...nodeOptions] })
    child.on('message', (message: AcknowledgedAccount) => {
      messages++
      last.set(message.id, message)
    })
    return child
  }

  it(`contain each acknowledged change, and no incomplete change, after ${kills} kills`, async function () {
    worker = startWorker()
    for (let kill = 0; kill < kills; kill++) {
      const count = messages
      await waitFor(() => messages > count + Math.random() * 60)
      if (kill % 2 === 0) process.kill(await waitFor(() => redis.findPid()), 'SIGKILL')
      if (kill % 4 === 1 || kill % 8 === 0) {
        const killed = worker
        killed.kill('SIGKILL')
        await once(killed, 'exit')
        worker = startWorker()
      }
    }
    worker.kill('SIGKILL')
    await once(worker, 'exit')
    await redis.start()
    await expectAll()
  })

  async function expectAll(): Promise<void> {
    const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
    const { accounts, sessions } = createAccounts({
      store,
      log: silentLog,
      secret: Buffer.alloc(32),
      retention: defaultLoginRetention,
    })
    store.start()
    await waitFor(() => store.ready())
    for (const { id, username, token, state } of last.values()) {
      const account = await accounts.findByName(username)
      const live = (await sessions.find(token)) !== undefined
      const label = `${username}: ${state}`
      if (state === 'removed') expect(account, label).to.equal(undefined)
      if (['made', 'logged out'].includes(state)) expect(account?.id, label).to.equal(id)
      if (state === 'disabled') expect(account?.disabled, label).to.equal(true)
      if (['logged out', 'disabled', 'removed'].includes(state)) expect(live, label).to.equal(false)
      // For users who log out next, the store may already contain the logout, although it was not acknowledged.
      if (state === 'logged in' && staysLoggedIn(username)) expect(live, label).to.equal(true)
    }
    for (const account of await accounts.list('admin'))
      expect((await accounts.findByName(account.username))?.id, 'by name').to.equal(account.id)
    expect(last.size).to.be.greaterThan(kills)
    await store.close()
  }
})

function staysLoggedIn(username: string): boolean {
  return Number(username.split('-').at(-1)) % 5 === 1
}
