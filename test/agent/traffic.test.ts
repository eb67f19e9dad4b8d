import { expect } from 'chai'
import fc from 'fast-check'
import { ratesOf } from '../../agent/guests/policy/policy.js'
import { unlimitedTraffic } from '../../agent/guests/record/record.js'
import { at, config, time, TrafficHost } from '../support/network/traffic-host.js'

/* Tests the traffic keeper with an agent's journal on disk. The tests set the host's counters, clock and interfaces. */

const gb = 1e9

describe('the traffic accounting of an agent', () => {
  let host: TrafficHost
  beforeEach(() => (host = new TrafficHost()))
  afterEach(() => host.destroy())

  it('continues the byte count of each guest and direction across crashes, restarts and reboots', async () => {
    const [a, b] = [host.guest(1), host.guest(2)]
    host.receive(a, 1000, 200)
    host.receive(b, 5)
    await host.keeper.look()
    host.receive(a, 1)
    host.crash()
    await host.keeper.look()
    expect([host.used(a), host.used(b)]).to.deep.equal([
      [1001, 200],
      [5, 0],
    ])
    await host.keeper.close()
    host.reboot()
    host.receive(a, 5000)
    await host.keeper.look()
    expect(host.used(a)).to.deep.equal([6001, 200])
  })

  it('counts each byte exactly once, except bytes between the last reading and a reboot', async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('bytes' as const), rx: fc.nat(1e9), tx: fc.nat(1e9) }),
      fc.constantFrom({ kind: 'look' as const }, { kind: 'crash' as const }, { kind: 'reboot' as const }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const own = new TrafficHost()
        try {
          const uuid = own.guest(1)
          const [counted, pending] = [
            [0, 0],
            [0, 0],
          ] as [[number, number], [number, number]]
          const settle = (): void => {
            for (const way of [0, 1] as const) {
              counted[way] += pending[way]
              pending[way] = 0
            }
          }
          for (const one of steps) {
            if (one.kind === 'bytes') {
              own.receive(uuid, one.rx, one.tx)
              pending[0] += one.rx
              pending[1] += one.tx
            } else if (one.kind === 'look') {
              await own.keeper.look()
              settle()
            } else if (one.kind === 'crash') own.crash()
            else {
              own.reboot()
              pending.fill(0)
            }
            expect(own.used(uuid)).to.deep.equal(counted)
          }
        } finally {
          own.destroy()
        }
      }),
      { numRuns: 60 },
    )
  })

  it('resets the count once for a new month, even if the clock jumps back and forth', async () => {
    const uuid = host.guest(1)
    const seen: [string, number][] = []
    for (const [day, bytes] of [
      ['2026-11-30 23:59:59', 10],
      ['2026-12-01 00:00:01', 1],
      ['2026-11-30 23:59:59', 2],
      ['2026-12-01 00:00:01', 4],
      ['2026-10-01 00:00:00', 8],
      ['2026-12-31 23:59:59', 16],
      ['2027-01-01 00:00:00', 32],
    ] as const) {
      host.nowMs = at(day)
      host.receive(uuid, bytes)
      if (bytes === 4) host.crash()
      await host.keeper.look()
      seen.push([host.keeper.readUse(host.store.get(uuid)).periodStart, host.used(uuid)[0]])
    }
    expect(seen).to.deep.equal([
      ['2026-11-01', 10],
      ['2026-12-01', 1],
      ['2026-12-01', 3],
      ['2026-12-01', 7],
      ['2026-10-01', 15],
      ['2026-12-01', 31],
      ['2027-01-01', 32],
    ])
  })

  it('resets the count every month after a clock that was years ahead has been corrected', async () => {
    const uuid = host.guest(1)
    const seen: [string, number][] = []
    for (const day of ['2031-01-01', '2026-11-21', '2026-12-01', '2027-01-01']) {
      host.nowMs = at(`${day} 00:00:00`)
      host.receive(uuid, 10)
      host.crash()
      await host.keeper.look()
      seen.push([host.keeper.readUse(host.store.get(uuid)).periodStart, host.used(uuid)[0]])
    }
    expect(seen).to.deep.equal([
      ['2031-01-01', 10],
      ['2026-11-01', 20],
      ['2026-12-01', 10],
      ['2027-01-01', 10],
    ])
  })

  it('counts the received bytes of a running guest, but not bytes that others send to a stopped guest', async () => {
    const uuid = host.guest(1)
    await host.keeper.look()
    host.receive(uuid, 1000)
    host.store.update(uuid, { status: 'stopped' })
    await host.keeper.look()
    for (const crash of [false, true]) {
      if (crash) host.crash()
      host.receive(uuid, 500)
      await host.keeper.look()
      expect(host.used(uuid)).to.deep.equal([1000, 0])
    }
    // The guest has sent bytes, so it has run since the last reading.
    host.receive(uuid, 60, 40)
    await host.keeper.look()
    expect(host.used(uuid)).to.deep.equal([1060, 40])
    host.store.update(uuid, { status: 'running' })
    host.receive(uuid, 7)
    await host.keeper.look()
    expect(host.used(uuid)).to.deep.equal([1067, 40])
  })

  it('keeps the counts of the month on a host whose clock shows 1971 after each boot', async () => {
    const uuid = host.guest(1)
    for (const day of ['2026-11-21', '1971-01-01', '2026-11-22', '1971-01-01', '2026-11-23']) {
      host.nowMs = at(`${day} 00:00:00`)
      host.reboot()
      host.receive(uuid, 10)
      await host.keeper.look()
    }
    expect(host.used(uuid)).to.deep.equal([50, 0])
  })

  it('returns to the current month at a reset if a wrong clock had already begun the next month', async () => {
    const uuid = host.guest(1)
    host.nowMs = at('2026-12-01 00:00:00')
    await host.keeper.look()
    host.nowMs = at('2026-11-21 00:00:00')
    host.receive(uuid, 10)
    await host.keeper.look()
    const { periodStart, rxBytes } = host.keeper.readUse(host.store.get(uuid))
    expect([periodStart, rxBytes]).to.deep.equal(['2026-12-01', 10])
    await host.reset(uuid)
    expect(host.keeper.readUse(host.store.get(uuid)).periodStart).to.equal('2026-11-01')
  })

  it('counts only the bytes since a reset, even if earlier bytes were not read yet', async () => {
    const [a, b] = [host.guest(1), host.guest(2)]
    host.receive(a, 1000, 200)
    await host.keeper.look()
    host.receive(a, 50, 7)
    host.receive(b, 3)
    const late = host.keeper.look()
    host.receive(a, 20)
    await Promise.all([host.reset(a), late])
    expect(host.used(a)).to.deep.equal([0, 0])
    await host.keeper.look()
    expect([host.used(a), host.used(b)], 'others count on').to.deep.equal([
      [0, 0],
      [3, 0],
    ])
    host.receive(a, 5)
    await host.keeper.look()
    expect(host.used(a)).to.deep.equal([5, 0])
  })

  it('resets the count even if the host’s counters cannot be read', async () => {
    const uuid = host.guest(1, { traffic: { ...unlimitedTraffic, monthlyGb: 1 } })
    host.receive(uuid, gb)
    await host.keeper.look()
    host.countersFail = true
    await host.reset(uuid)
    expect([host.used(uuid), host.policy(uuid).overQuota]).to.deep.equal([[0, 0], false])
  })

  it('resets the count on the reset day of the guest, and reports the next reset', async () => {
    const uuid = host.guest(1, { traffic: { ...unlimitedTraffic, resetDay: 25 } })
    host.receive(uuid, 10)
    await host.keeper.look()
    const { periodStart, resetsAtMs } = host.keeper.readUse(host.store.get(uuid))
    expect([periodStart, time.format(resetsAtMs)]).to.deep.equal(['2026-10-25', '2026-11-25 00:00:00'])
    await host.limit(uuid, { resetDay: 28 })
    expect(host.used(uuid), 'another day resets nothing').to.deep.equal([10, 0])
    host.nowMs = at('2026-11-28 00:00:00')
    await host.keeper.look()
    expect(host.used(uuid)).to.deep.equal([0, 0])
  })

  it('disconnects a guest as soon as its quota is used up, stops it only once, and prevents its start', async () => {
    const uuid = host.guest(1, { traffic: { ...unlimitedTraffic, monthlyGb: 1 } })
    host.receive(uuid, 0.6 * gb, 0.4 * gb - 1)
    await host.keeper.look()
    expect([host.policy(uuid), host.stopped]).to.deep.equal([{ expired: false, overQuota: false }, []])
    host.receive(uuid, 0, 1)
    await host.keeper.look()
    await host.keeper.look()
    expect([host.policy(uuid), host.stopped]).to.deep.equal([{ expired: false, overQuota: true }, [uuid]])
    expect(host.rates).to.deep.equal([{ device: 'bt1', downMbps: 100, upMbps: 5, cut: true }])
    expect(host.store.get(uuid).wanted).to.equal('stopped')
  })

  for (const [name, unblock] of [
    ['a reset of its traffic count', (uuid: string) => host.reset(uuid)],
    ['an increase of its quota', (uuid: string) => host.limit(uuid, { monthlyGb: 2 })],
    ['the removal of its quota', (uuid: string) => host.limit(uuid, { monthlyGb: 0 })],
    [
      'a change of the action of its quota to “none”',
      (uuid: string) => host.limit(uuid, { action: 'none', monthlyGb: 5 }),
    ],
    ['the start of a new month', async () => ((host.nowMs = at('2026-12-01 00:00:00')), host.keeper.look())],
  ] as const)
    it(`unblocks a guest after ${name}, but does not start the guest`, async () => {
      const uuid = host.guest(1, { traffic: { ...unlimitedTraffic, monthlyGb: 1 } })
      host.receive(uuid, gb)
      await host.keeper.look()
      expect(host.policy(uuid).overQuota).to.equal(true)
      await unblock(uuid)
      expect(host.policy(uuid)).to.deep.equal({ expired: false, overQuota: false })
      expect(host.store.get(uuid).wanted).to.equal('stopped')
      host.crash()
      await host.keeper.look()
      expect([host.policy(uuid).overQuota, host.stopped]).to.deep.equal([false, [uuid]])
    })

  it('throttles a guest to the lower of its rate and the throttle rate, and restores its rate later', async () => {
    const uuid = host.guest(1, { traffic: { ...unlimitedTraffic, monthlyGb: 1, action: 'throttle' } })
    host.receive(uuid, gb)
    await host.keeper.look()
    expect(host.rates).to.deep.equal([{ device: 'bt1', downMbps: 7, upMbps: 5, cut: false }])
    await host.limit(uuid, { throttleMbps: 3 })
    expect(host.rates.at(-1)).to.deep.equal({ device: 'bt1', downMbps: 3, upMbps: 3, cut: false })
    expect(ratesOf(host.store.get(uuid), config)).to.deep.equal(host.rates.at(-1))
    await host.reset(uuid)
    expect(host.rates.at(-1)).to.deep.equal({ device: 'bt1', downMbps: 100, upMbps: 5, cut: false })
    expect(host.stopped).to.deep.equal([])
  })

  it('records that a quota without an action is used up, but does not limit the guest', async () => {
    const uuid = host.guest(1, { traffic: { ...unlimitedTraffic, mode: 'split', outGb: 1, action: 'none' } })
    host.receive(uuid, 5 * gb, gb)
    await host.keeper.look()
    expect([host.policy(uuid).overQuota, host.stopped]).to.deep.equal([true, []])
    expect(host.rates.at(-1)).to.deep.equal({ device: 'bt1', downMbps: 100, upMbps: 5, cut: false })
    await host.limit(uuid, { action: 'stop' })
    expect(host.stopped, 'now it has one').to.deep.equal([uuid])
  })

  it('stops an expired guest on time even if counters cannot be read', async () => {
    const uuid = host.guest(1, { expiresAtMs: at('2026-11-21 12:00:10') })
    host.countersFail = true
    host.nowMs = at('2026-11-21 12:00:09')
    await host.keeper.look()
    expect([host.policy(uuid).expired, host.stopped]).to.deep.equal([false, []])
    host.nowMs += 1000
    await host.keeper.look()
    expect([host.policy(uuid).expired, host.stopped]).to.deep.equal([true, [uuid]])
    for (const expiresAtMs of [0, at('2027-01-01 00:00:00')]) {
      host.store.update(uuid, { expiresAtMs: 1 })
      await host.keeper.judge(uuid)
      host.store.update(uuid, { expiresAtMs })
      await host.keeper.judge(uuid)
      expect(host.policy(uuid).expired).to.equal(false)
    }
    expect([host.store.get(uuid).wanted, host.stopped]).to.deep.equal(['stopped', [uuid]])
  })

  it('stops an expired guest only when its running operation has ended', async () => {
    const uuid = host.guest(1, { expiresAtMs: 1 })
    host.busy = true
    await host.keeper.look()
    expect([host.policy(uuid).expired, host.stopped]).to.deep.equal([true, []])
    host.busy = false
    await host.keeper.look()
    expect(host.stopped).to.deep.equal([uuid])
  })

  it('does not stop expired guests that are broken or are being deleted', async () => {
    for (const [id, status] of [
      [1, 'deleting'],
      [2, 'error'],
    ] as const)
      host.guest(id, { status, expiresAtMs: 1 })
    await host.keeper.look()
    expect(host.stopped).to.deep.equal([])
  })

  it('writes nothing to the journal if no counter has changed', async () => {
    const uuid = host.guest(1)
    host.receive(uuid, 5)
    await host.keeper.look()
    const revision = host.store.get(uuid).revision
    const written = host.store.changes.db.prepare('SELECT total_changes()').pluck()
    const before = written.get()
    await host.keeper.look()
    expect([written.get(), host.store.get(uuid).revision]).to.deep.equal([before, revision])
  })

  it('deletes the counts together with the guest', async () => {
    const uuid = host.guest(1)
    host.receive(uuid, 5)
    await host.keeper.look()
    host.store.remove(uuid)
    await host.keeper.look()
    expect(host.store.changes.db.prepare('SELECT count(*) FROM traffic').pluck().get()).to.equal(0)
  })
})
