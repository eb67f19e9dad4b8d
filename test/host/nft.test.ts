import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Nft } from '../../agent/host/net/nft.js'
import { readCountedElements } from '../../agent/host/net/counted-elements.js'
import { Ip } from '../../agent/host/net/ip.js'
import { isToolPid } from '../../agent/host/process/pipe.js'
import { CommandError } from '../../agent/host/process/process.js'
import { killChildren } from '../support/kill.js'
import { waitFor } from '../support/wait.js'

/* Uses the network namespace of the host, but a separate table that no packet traverses. */
const table = 'btest_nft'

describe('the nft and ip processes of the agent', () => {
  const nft = new Nft()
  const ip = new Ip()
  const failure = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )

  before(async () => {
    if (await ip.findInterface('btest-ip0')) await ip.run(['link delete dev btest-ip0'])
    await nft.apply([`add table ip ${table}`, `delete table ip ${table}`, `add table ip ${table}`])
  })
  after(async () => {
    await nft.apply([`delete table ip ${table}`])
    await nft.close()
    await ip.close()
  })

  it('write no command history to the disk', async () => {
    const history = '/.nft.history' // nft writes its history here if HOME is not set
    const before = readFileSync(history, { flag: 'a+' })
    const own = new Nft()
    await own.apply([`add chain ip ${table} remembered`, `delete chain ip ${table} remembered`])
    await own.close()
    try {
      expect(readFileSync(history)).to.deep.equal(before)
    } finally {
      if (before.length === 0) rmSync(history)
    }
  })

  it('apply a transaction completely or not at all', async () => {
    const commands = [`add chain ip ${table} one`, `add chain ip ${table} two`, `delete chain ip ${table} three`]
    const error = await failure(nft.apply(commands))
    expect(error).to.be.instanceOf(CommandError)
    expect((error as Error).message).to.match(/No such file or directory/)
    expect(await nft.readTable('ip', table)).to.not.contain('chain')
    await nft.apply(commands.slice(0, 2))
    expect(await nft.readTable('ip', table))
      .to.contain('chain one')
      .and.contain('chain two')
  })

  it('report which of many concurrent calls failed', async () => {
    const calls = Array.from({ length: 200 }, (_, i) =>
      failure(nft.apply([i % 3 === 0 ? `delete chain ip ${table} none${i}` : `add chain ip ${table} c${i}`])),
    )
    const failed = (await Promise.all(calls)).map((error) => error !== undefined)
    expect(failed).to.deep.equal(failed.map((_, i) => i % 3 === 0))
  })

  it('report a missing table as undefined', async () => {
    expect(await nft.readTable('ip', 'btest_none')).to.equal(undefined)
  })

  it('have PIDs that the agent recognizes, even the additional process for a long transaction', async () => {
    const monitor = spawn('nft', ['monitor'], { stdio: ['ignore', 'pipe', 'inherit'] })
    const pids: number[] = []
    createInterface({ input: monitor.stdout }).on('line', (line) => {
      const pid = /^# new generation \d+ by process (\d+) \(nft\)/.exec(line)?.[1]
      if (pid !== undefined) pids.push(Number(pid))
    })
    try {
      let number = 0
      const add = (): string => `add chain ip ${table} seen${number++}`
      const own = (): number => new Set(pids.filter((pid) => isToolPid(pid))).size
      await waitFor(async () => (await nft.apply([add()]), own() > 0))
      await nft.apply(Array.from({ length: 1000 }, add))
      await waitFor(() => own() > 1, { what: 'another process' })
    } finally {
      monitor.kill('SIGKILL')
    }
  })

  it('accept 20,000 elements in one transaction', async () => {
    const ports = Array.from({ length: 20_000 }, (_, i) => `6 . ${i + 1} : 10.0.0.1 . 22`)
    const type = 'type inet_proto . inet_service : ipv4_addr . inet_service;'
    await nft.apply([`add map ip ${table} m { ${type} }`, `add element ip ${table} m { ${ports.join(', ')} }`])
    expect(await nft.readTable('ip', table)).to.contain('6 . 20000 : 10.0.0.1 . 22')
    const error = await failure(nft.apply([`add element ip ${table} m { ${ports.join(', ')}, 6 . 1 : 10.0.0.2 . 1 }`]))
    expect((error as Error).message.length).to.be.lessThan(1000)
  })

  it('read the counters of a thousand elements, and no counters if the table is missing', async () => {
    const inet = `inet ${table}_counted`
    const remove = [`add table ${inet}`, `delete table ${inet}`]
    await nft.apply(remove)
    const read = () => readCountedElements(`${table}_counted`, ['one', 'two'])
    expect(await read()).to.deep.equal([])
    const keys = Array.from({ length: 1000 }, (_, i) => Buffer.from([10, 0, i >> 8, i & 0xff]))
    const counter = (i: number): string => `counter packets 1 bytes ${2 ** 40 + i}`
    const elements = keys.map((key, i) => `${key.join('.')} ${counter(i)}`)
    try {
      await nft.apply([
        `add table ${inet}`,
        ...['one', 'two', 'three'].map((name) => `add set ${inet} ${name} { type ipv4_addr; counter; }`),
        `add element ${inet} one { ${elements.join(', ')} }`,
        `add element ${inet} two { 192.0.2.1 }`,
        `add element ${inet} three { 192.0.2.3 }`,
      ])
      const found = (await read()).map(({ set, key, bytes }) => `${set} ${key.join('.')} ${bytes}`)
      const expected = keys.map((key, i) => `one ${key.join('.')} ${2 ** 40 + i}`)
      expect(found.sort()).to.deep.equal([...expected, 'two 192.0.2.1 0'].sort())
    } finally {
      await nft.apply(remove)
    }
  })

  it('are started again if they are killed before or during a command', async () => {
    expect(killChildren(process.pid, 'nft')).to.equal(1)
    await failure(nft.apply([`add chain ip ${table} again`]))
    await nft.apply([`add chain ip ${table} again`])
    const during = failure(nft.apply([`add chain ip ${table} during`]))
    await Promise.resolve()
    expect(killChildren(process.pid, 'nft')).to.equal(1)
    await during
    // This call may be the first to notice that the process was killed. The call then fails.
    await failure(nft.apply([`add chain ip ${table} during`]))
    await nft.apply([`add chain ip ${table} during`])
    expect(await nft.readTable('ip', table))
      .to.contain('chain again')
      .and.contain('chain during')
  })

  for (const text of [
    'add chain ip x y\nflush ruleset',
    'include /etc/shadow',
    'add table ip $x',
    'add table ip `id`',
    "add table ip 'x'",
    'add table ip x # comment',
    'add table ip x\\',
    'add table ip \u2028x',
  ])
    it(`reject the command ${JSON.stringify(text)}`, async () => {
      expect(((await failure(nft.apply([text]))) as Error).message).to.contain('the command for nft contains')
    })

  it('read an interface, report a missing interface as undefined, and pass on error messages of ip', async () => {
    expect(await ip.findInterface('btest-none')).to.equal(undefined)
    await ip.run(['link add name btest-ip0 type bridge', 'address add 10.99.99.1/24 dev btest-ip0'])
    const { addr_info } = (await ip.findInterface('btest-ip0')) as { addr_info: { local: string }[] }
    expect(addr_info.map(({ local }) => local)).to.deep.equal(['10.99.99.1'])
    await ip.run(['link delete dev btest-ip0'])
    const error = await failure(ip.run(['link set dev btest-none up']))
    expect((error as Error).message).to.contain('Cannot find device')
    const refused = await failure(ip.run(['link set dev lo up\nlink delete dev lo']))
    expect((refused as Error).message).to.contain('the command for ip contains')
  })
})
