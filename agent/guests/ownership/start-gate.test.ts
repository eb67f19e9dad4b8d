import { expect } from 'chai'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStartGate, StartGate } from './start-gate.js'

const waitMs = 3_600_000

describe('the start of guests after a boot of the host', () => {
  const directory = mkdtempSync(join(tmpdir(), 'btest-start-gate-'))
  after(() => rmSync(directory, { recursive: true, force: true }))

  it('waits if the host has booted since a gateway compared the owners, also after restarts of the agent', async () => {
    const start = (bootId: string): Promise<StartGate> => openStartGate(directory, bootId, waitMs)
    const first = await start('boot-1')
    expect(first.leftMs, 'new host').to.equal(0)
    await first.open()
    expect((await start('boot-1')).leftMs, 'restart of the agent').to.equal(0)
    expect((await start('boot-2')).leftMs, 'boot').to.be.above(0)
    const restarted = await start('boot-2')
    expect(restarted.leftMs, 'restart of the agent before a gateway has answered').to.be.above(0)
    await restarted.open()
    expect((await start('boot-2')).leftMs, 'restart of the agent').to.equal(0)
  })
  it('ends when a gateway has confirmed the owners', async () => {
    const gate = new StartGate(waitMs)
    const opened = gate.opened(new AbortController().signal)
    await gate.open()
    await opened
    expect(gate.leftMs).to.equal(0)
  })
  it('ends after a time without a gateway', () => {
    let now = 0
    const gate = new StartGate(1000, undefined, () => now)
    now = 999
    expect(gate.leftMs).to.equal(1)
    now = 1000
    expect(gate.leftMs).to.equal(0)
  })
})
