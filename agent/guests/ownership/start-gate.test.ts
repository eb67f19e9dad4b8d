import { expect } from 'chai'
import { openDatabase, type Database } from '../../state/database.js'
import { openStartGate, StartGate } from './start-gate.js'

const waitMs = 3_600_000
const seconds = 3600

describe('the start of guests after a boot of the host', () => {
  let journal: Database
  beforeEach(() => (journal = openDatabase(':memory:')))
  afterEach(() => journal.close())

  it('waits after a boot until a gateway has compared the owners, even if the agent restarts meanwhile', () => {
    const start = (bootId: string): StartGate => openStartGate(journal, bootId, seconds)
    const first = start('boot-1')
    expect(first.leftMs, 'new host').to.equal(0)
    expect(start('boot-1').leftMs, 'restart of the agent').to.equal(0)
    expect(start('boot-2').leftMs, 'boot').to.be.above(0)
    const restarted = start('boot-2')
    expect(restarted.leftMs, 'restart of the agent before a gateway has answered').to.be.above(0)
    restarted.open()
    expect(start('boot-2').leftMs, 'restart of the agent').to.equal(0)
  })
  it('begins when a gateway has confirmed the owners', async () => {
    const gate = new StartGate(waitMs)
    let notices = 0
    gate.onOpen(() => notices++)
    const opened = gate.opened(new AbortController().signal)
    gate.open()
    gate.open()
    await opened
    expect([gate.leftMs, notices]).to.deep.equal([0, 1])
  })
  it('waits without a limit if the fleet has other hosts, and for 60 s otherwise', () => {
    const start = (bootId: string, hasOtherHosts?: boolean): number => {
      const gate = openStartGate(journal, bootId, 'auto')
      const { leftMs } = gate
      gate.open(hasOtherHosts)
      return leftMs
    }
    start('boot-1')
    expect(start('boot-2', true), 'not known').to.be.within(1, 60_000)
    expect(start('boot-3'), 'other hosts').to.equal(Infinity)
    expect(start('boot-4', false), 'the last gateway did not report it').to.equal(Infinity)
    expect(start('boot-5'), 'the other hosts were removed').to.be.within(1, 60_000)
  })
  it('waits as long as the configuration says, also if the fleet has other hosts', () => {
    openStartGate(journal, 'boot-1', 'auto').open(true)
    expect(openStartGate(journal, 'boot-2', 10).leftMs).to.be.within(1, 10_000)
    expect(openStartGate(journal, 'boot-2', 0).leftMs).to.equal(0)
  })
  it('does not begin before a gateway has answered if the wait has no limit, and ends with its caller', async () => {
    const gate = new StartGate(Infinity)
    const caller = new AbortController()
    const waiting = gate.opened(caller.signal).then(
      () => 'opened',
      (error: Error) => error.name,
    )
    caller.abort()
    expect(await waiting).to.equal('AbortError')
    const opened = gate.opened(new AbortController().signal)
    gate.open(true)
    await opened
  })
  it('is not announced if nothing had to wait', () => {
    const gate = new StartGate(0)
    let notices = 0
    gate.onOpen(() => notices++)
    gate.open()
    expect(notices).to.equal(0)
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
