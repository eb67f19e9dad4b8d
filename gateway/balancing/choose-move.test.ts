import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, conflict } from '../../shared/errors.js'
import type { Fleet } from '../fleet/contract.js'
import type { SuggestionChoice } from '../fleet/move-contract.js'
import { defaultSettings, initialState, type BalancingSettings, type BalancingState } from './balancing-record.js'
import { chooseMove, Refusals } from './choose-move.js'
import { recordCheck } from './plan-balancing.js'

const minute = 60_000
const settings: BalancingSettings = { ...defaultSettings, enabled: true }

/** A fleet whose plan always suggests the first guest that is not refused. Dry runs of some guests fail. */
function fleetOf(count: number, failing: number, error: BerthError): Fleet {
  const views = Array.from({ length: count }, (_, at) => ({
    hostId: 'a',
    guest: Guest.fromPartial({ uuid: `guest${at}`, name: `guest${at}` }),
  }))
  const isAllowed = (view: unknown, refuse: (view: never) => void): boolean => {
    try {
      refuse(view as never)
      return true
    } catch {
      return false
    }
  }
  const moves = {
    suggest: async ({ refuse }: SuggestionChoice) =>
      views
        .filter((view) => isAllowed(view, refuse))
        .slice(0, 1)
        .map((guest) => ({ guest, toHostId: 'b', reason: 'load' })),
    check: async ({ guest: { guest } }: { guest: { guest: Guest } }) => {
      if (Number(guest.uuid.slice(5)) < failing) throw error
      return { toHostId: 'b', network: { portMappings: [], publicIpv4s: [], ipv6Addresses: [], ipv4: '' } }
    },
  }
  return { view: { latestOperation: () => undefined }, relocation: { moves } } as unknown as Fleet
}

interface CheckResult {
  readonly state: BalancingState
  /** Uuid of the guest that can move, or `none`. */
  readonly found: string
  readonly dryRuns: number
}

/** Makes a check with at most 20 failed dry runs. */
async function check(fleet: Fleet, state: BalancingState, nowMs: number, changed: object = {}): Promise<CheckResult> {
  const now = { ...settings, ...changed }
  const refusals = new Refusals()
  const facts = { settings: now, movedAt: state.movedAt, failedDryRuns: state.failedDryRuns ?? {}, nowMs }
  let choice = await chooseMove(fleet, facts, refusals)
  while (choice === 'refused' && refusals.dryRuns.size < 20) choice = await chooseMove(fleet, facts, refusals)
  const refused = [...refusals.guests.values()]
  return {
    state: recordCheck(state, now, { nowMs, hasMoved: false, refused, failedDryRuns: refusals.dryRuns }),
    found: typeof choice === 'string' ? 'none' : choice.uuid,
    dryRuns: refusals.dryRuns.size,
  }
}

describe('the choice of an automatic move', () => {
  for (const code of ['offline_required', 'changes_addresses', 'agent_timeout'])
    it(`reaches guests behind 45 guests whose dry run fails with ${code}`, async () => {
      const fleet = fleetOf(46, 45, conflict(code, 'it stays'))
      const first = await check(fleet, initialState, 100 * minute)
      const second = await check(fleet, first.state, 115 * minute)
      const third = await check(fleet, second.state, 130 * minute)
      expect([first, second, third].map(({ found }) => found)).to.deep.equal(['none', 'none', 'guest45'])
      expect([first, second, third].map(({ dryRuns }) => dryRuns)).to.deep.equal([20, 20, 5])
      expect(third.state.refused).to.have.length(45)
      expect(third.state.refused[0]).to.deep.equal({ uuid: 'guest0', name: 'guest0', code, message: 'it stays' })
    })

  it('repeats a failed dry run after the pause, and earlier if the settings allow other addresses', async () => {
    const fleet = fleetOf(1, 1, conflict('changes_addresses', 'it stays'))
    const { state } = await check(fleet, initialState, minute)
    const dryRuns = async (nowMs: number, changed: object = {}): Promise<number> =>
      (await check(fleet, state, nowMs, changed)).dryRuns
    expect([await dryRuns(2 * minute), await dryRuns(2 * minute, { changesAddresses: true })]).to.deep.equal([0, 1])
    expect(await dryRuns((24 * 60 + 2) * minute)).to.equal(1)
  })

  it('ends without a refusal if the store cannot be reached', async () => {
    const fleet = fleetOf(1, 1, new BerthError('unavailable', 'store_unavailable', 'the store is down'))
    const error = await check(fleet, initialState, minute).catch((thrown: unknown) => thrown)
    expect(error).to.have.property('code', 'store_unavailable')
  })
})
