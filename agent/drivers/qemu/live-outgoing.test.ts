import { expect } from 'chai'
import { checkPaused, finishSending, readMemoryProgress } from './live-outgoing.js'
import type { QmpConnection } from './qmp/connection.js'

/** Returns a monitor that answers each command from `answers`. It adds each command with its timeout to `calls`. */
function monitorWith(answers: Readonly<Record<string, unknown>>, calls: unknown[] = []): QmpConnection {
  const execute = async (command: string, _args: unknown, timeoutMs?: number): Promise<unknown> => {
    calls.push([command, timeoutMs])
    return answers[command]
  }
  return { execute } as Partial<QmpConnection> as QmpConnection
}

describe('QEMU that sends the memory of a guest', () => {
  it('reports the memory left to send, and the bytes that the guest has written to all its disks', async () => {
    const ram = { remaining: 5, mbps: 8 }
    const disks = [{ stats: { wr_bytes: 3 } }, { stats: { wr_bytes: 4 } }, {}]
    const migration = { status: 'active', ram, 'expected-downtime': 6, 'cpu-throttle-percentage': 20 }
    const monitor = monitorWith({ 'query-migrate': migration, 'query-blockstats': disks })
    expect(await readMemoryProgress(monitor)).to.deep.equal({
      state: 'sending',
      remainingBytes: 5,
      bytesPerSec: 1_000_000,
      expectedDowntimeMs: 6,
      slowedPercent: 20,
      writtenBytes: 7,
    })
  })

  it('reports the reason if the memory could not be sent', async () => {
    const monitor = monitorWith({ 'query-migrate': { status: 'failed', 'error-desc': 'Broken\npipe' } })
    const error: unknown = await readMemoryProgress(monitor).catch((cause: unknown) => cause)
    expect(error).to.include({ code: 'memory_not_sent', message: 'sending the memory failed: Broken pipe' })
  })

  for (const [expected, state, code] of [
    ['paused', 'finish-migrate', undefined],
    ['paused', 'running', 'memory_not_sent'],
    ['paused', 'postmigrate', 'memory_not_sent'],
    ['sent', 'postmigrate', undefined],
  ] as const)
    it(`${code ? 'does not count' : 'counts'} as ${expected} in the state ${state}`, async () => {
      const checked = checkPaused(monitorWith({ 'query-status': { status: state } }), expected)
      expect(await checked.catch((error: { code: string }) => error.code)).to.equal(code)
    })

  it('gets up to two minutes for each answer while it sends the last part of the memory', async () => {
    const calls: [string, number | undefined][] = []
    const answers = { 'query-migrate': { status: 'completed' }, 'query-status': { status: 'postmigrate' } }
    await finishSending(monitorWith(answers, calls), new AbortController().signal)
    const limits = calls.filter(([command]) => command.includes('migrate')).map(([, timeoutMs]) => timeoutMs)
    expect(limits).to.deep.equal([120_000, 120_000])
  })
})
