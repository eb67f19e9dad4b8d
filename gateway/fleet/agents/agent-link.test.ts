import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import { KeyedCondition } from '../../../shared/async/keyed-condition.js'
import { HostState } from '../host-state.js'
import type { AgentConnection } from './agent-connection.js'
import { AgentLink } from './agent-link.js'

describe('the gateway’s link to a disconnected host', () => {
  const record = { id: 'h', version: 1, name: 'one', address: '', draining: false }
  const newest = {} as AgentConnection

  function createLink(expectedMs: number, reconnectMs = 1) {
    const host = new HostState({ ...record, createdAtMs: 0, serials: [], certificateNotAfterMs: 0 })
    const hostChanged = new KeyedCondition()
    const watcher: { connection: AgentConnection | undefined } = { connection: undefined }
    const timing = { reconnectMs, expectedMs: () => expectedMs }
    const link = new AgentLink({ host, hostChanged, watcher, pauses: { check: () => 0 }, ...timing })
    const connect = (): void => {
      watcher.connection = newest
      hostChanged.notify('h')
    }
    return { link, connect }
  }

  it('lets calls wait for the first connection for some time after the start of the gateway', async () => {
    const { link, connect } = createLink(600_000)
    expect(link.isUsable).to.equal(true)
    const connected = link.connected()
    await delay(50)
    connect()
    expect(await connected).to.equal(newest)
  })

  it('refuses calls with host_offline if no connection is expected', async () => {
    const { link } = createLink(0)
    expect(link.isUsable).to.equal(false)
    const refused = await link.connected().catch((error: unknown) => error)
    expect(refused).to.have.property('code', 'host_offline')
  })

  it('fails waiting calls when the time for the first connection ends, even if reconnect_ms is longer', async () => {
    const { link } = createLink(50, 600_000)
    const refused = await link.connected().catch((error: unknown) => error)
    expect(refused).to.have.property('code', 'host_offline')
  }).timeout(60_000)
})
