import { expect } from 'chai'
import { unlimitedTraffic } from '../../agent/guests/record/record.js'
import { TrafficHost } from '../support/network/traffic-host.js'

describe('an agent whose clock was wrong', () => {
  let host: TrafficHost
  beforeEach(() => (host = new TrafficHost()))
  afterEach(() => host.destroy())

  const [minuteMs, dayMs] = [60_000, 86_400_000]
  let start: number
  let guest: string

  beforeEach(async () => {
    start = host.nowMs
    host.monotonicMs = 0
    host.open()
    guest = host.guest(1, {
      expiresAtMs: start + 10 * dayMs,
      traffic: { ...unlimitedTraffic, monthlyGb: 1 },
    })
    host.receive(guest, 1000, 200)
    await host.keeper.look()
  })

  /** Advances both clocks (wall and monotonic) in steps of 10 seconds, and runs the agent's check after each step. */
  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 10_000) {
      host.nowMs += 10_000
      host.monotonicMs! += 10_000
      await host.keeper.look()
    }
  }

  const jump = (ms: number): Promise<void> => ((host.nowMs += ms), host.keeper.look())

  for (const days of [40, -40, 3650])
    it(`stops no guest and starts no traffic period while the clock is wrong by ${days} days for 50 s`, async () => {
      await jump(days * dayMs)
      await pass(50_000)
      await jump(-days * dayMs)
      await pass(10 * minuteMs)
      expect([host.stopped, host.started]).to.deep.equal([[], []])
      expect(host.used(guest)).to.deep.equal([1000, 200])
      expect(host.store.get(guest).policy.expired).to.equal(false)
    })

  it('stops an expired guest after a jump of the clock only if the new time lasts for minutes', async () => {
    await jump(40 * dayMs)
    await pass(4 * minuteMs)
    expect(host.stopped).to.deep.equal([])
    await pass(2 * minuteMs)
    expect(host.stopped).to.deep.equal([guest])
  })

  it('starts a guest again after a correction of the clock if the wrong clock had stopped the guest', async () => {
    await jump(40 * dayMs)
    await pass(6 * minuteMs)
    expect(host.stopped).to.deep.equal([guest])
    host.crash()
    host.clock.trust()
    await jump(-40 * dayMs)
    await pass(6 * minuteMs)
    expect(host.started).to.deep.equal([guest])
    expect(host.store.get(guest)).to.include({ wanted: 'running' })
    await pass(6 * minuteMs)
    expect([host.stopped, host.started]).to.deep.equal([[guest], [guest]])
  })

  it('does not start a guest after a clock correction if its user stopped it or extended its expiry', async () => {
    const stopped = host.guest(2, { status: 'stopped', wanted: 'stopped', expiresAtMs: start + dayMs })
    const extended = host.guest(3, { expiresAtMs: start + dayMs })
    await pass(20_000)
    await jump(40 * dayMs)
    await pass(6 * minuteMs)
    expect(host.stopped).to.have.members([guest, extended])
    host.store.update(extended, { expiresAtMs: start + 90 * dayMs })
    await pass(20_000)
    expect(host.store.get(extended).policy.expired).to.equal(false)
    await jump(-40 * dayMs)
    await pass(6 * minuteMs)
    expect(host.started).to.deep.equal([guest])
    expect(host.store.get(stopped).wanted).to.equal('stopped')
  })

  it('keeps a guest expired if the host boots with the clock at 1970, until its expiry is extended', async () => {
    host.store.update(guest, { expiresAtMs: host.nowMs - 1000 })
    await host.keeper.look()
    expect(host.stopped).to.deep.equal([guest])
    host.nowMs = minuteMs // in 1970, like the clock of a host without a battery after a boot
    host.monotonicMs = 0
    host.trustsClock = false
    host.crash()
    await pass(4 * minuteMs)
    expect([host.started, host.store.get(guest).policy.expired]).to.deep.equal([[], true])
    host.store.update(guest, { expiresAtMs: start + 90 * dayMs })
    await host.keeper.look()
    expect(host.store.get(guest).policy.expired).to.equal(false)
  })

  it('keeps an expired guest stopped even if the clock is 40 days behind for 50 s', async () => {
    await pass(6 * minuteMs)
    host.store.update(guest, { expiresAtMs: host.nowMs - 1000 })
    await host.keeper.look()
    expect(host.stopped).to.deep.equal([guest])
    await jump(-40 * dayMs)
    await pass(50_000)
    await jump(40 * dayMs)
    await pass(10 * minuteMs)
    expect([host.stopped, host.started]).to.deep.equal([[guest], []])
  })
})
