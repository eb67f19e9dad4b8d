import { expect } from 'chai'
import { openDatabase } from '../../state/database.js'
import { openStartGate, StartGate } from './start-gate.js'

const waitMs = 3_600_000

describe('the start of guests after a boot of the host', () => {
  const journal = openDatabase(':memory:')
  after(() => journal.close())

  it('waits after a boot until a gateway has compared the owners, even if the agent restarts meanwhile', () => {
    const start = (bootId: string): StartGate => openStartGate(journal, bootId, waitMs)
    const first = start('boot-1')
    expect(first.leftMs, 'new host').to.equal(0)
    first.open()
    expect(start('boot-1').leftMs, 'restart of the agent').to.equal(0)
    expect(start('boot-2').leftMs, 'boot').to.be.above(0)
    const restarted = start('boot-2')
    expect(restarted.leftMs, 'restart of the agent before a gateway has answered').to.be.above(0)
    restarted.open()
    expect(start('boot-2').leftMs, 'restart of the agent').to.equal(0)
  })
  it('begins when a gateway has confirmed the owners', async () => {
    const gate = new StartGate(waitMs)
    const opened = gate.opened(new AbortController().signal)
    gate.open()
    await opened
    expect(gate.leftMs).to.equal(0)
  })
  it('begins after a fixed time if no gateway connects', () => {
    let now = 0
    const gate = new StartGate(1000, undefined, () => now)
    now = 999
    expect(gate.leftMs).to.equal(1)
    now = 1000
    expect(gate.leftMs).to.equal(0)
  })
})
