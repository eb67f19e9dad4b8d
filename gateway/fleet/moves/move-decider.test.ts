import { expect } from 'chai'
import { pino } from 'pino'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { BerthError, notFound } from '../../../shared/errors.js'
import { waitFor } from '../../../test/support/wait.js'
import { FleetState } from '../view.js'
import { Announcer, type AnnouncerOptions } from './announcer.js'
import { MoveDecider, type MoveDeciderOptions } from './move-decider.js'
import type { MoveDecision, MoveStore, StoredMove } from './move-store.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const move: StoredMove = { id: 'm', uuid, fromHostId: 'a', toHostId: 'b', beganAtMs: Date.now() }
const running = { virtualization: 'lxc', status: 'running' }
const limits = { vcpuMilli: 1000, ramMb: 512, diskGb: 10 }
const switched: StoredMove = { ...move, decided: { ownerId: 'b', generation: 1 } }

/** A decider whose store and agents are simulated. Messages to agents are recorded as `<host> <generation> <isOwner>`. */
class Lab {
  moves: StoredMove[] = []
  lists = 0
  decide = async (_move: StoredMove, _decision: MoveDecision): Promise<boolean> => false
  confirm = async (): Promise<boolean> => true
  answer = async (_hostId: string, _isOwner: boolean): Promise<void> => undefined
  readonly told: string[] = []
  readonly decisions: string[] = []
  readonly removed = new Set<string>()
  readonly view = new FleetState()
  readonly #decider: MoveDecider

  constructor() {
    for (const id of ['a', 'b', 'c']) this.view.setOnline(this.view.setHost(recordOf(id)), true)
    const moves: Partial<MoveStore> = {
      list: async () => (this.lists++, [...this.moves]),
      confirmDecided: () => this.confirm(),
      decide: (one, decision) => (this.decisions.push(`${one.uuid} ${decision}`), this.decide(one, decision)),
      forget: async ({ id }) => void (this.moves = this.moves.filter((one) => one.id !== id)),
    }
    const appointOwner =
      (hostId: string) => async (request: { uuid: string; generation: number; isOwner: boolean }) => {
        await this.answer(hostId, request.isOwner)
        this.told.push(`${hostId} ${request.generation} ${request.isOwner}`)
        return { revision: 0 }
      }
    const parts = {
      view: this.view,
      watched: {
        agent: (hostId: string) => ({ moves: { appointOwner: appointOwner(hostId) } }),
        isRemoved: (hostId: string) => this.removed.has(hostId),
      },
      owners: { check: async () => undefined },
      moves,
      evacuator: { settleAll: async () => undefined },
      confirmations: { work: () => undefined, settled: async () => undefined },
      log: pino({ level: 'silent' }),
      reached: async () => undefined,
    } as unknown as Omit<MoveDeciderOptions, 'announcer'> & AnnouncerOptions
    this.#decider = new MoveDecider({ ...parts, announcer: new Announcer(parts) })
    this.#decider.start()
  }

  /** Shows a guest of the host `a` in the view. */
  show(role: string): void {
    const guest = Guest.fromPartial({
      uuid,
      id: 1,
      name: 'web',
      ...running,
      limits,
      ownership: { role, generation: 0, moveId: 'm' },
    })
    this.view.apply(this.view.findState('a')!, { $case: 'guest', value: guest })
  }

  /** Resolves when the decider has read the list of moves `count` more times. */
  async reads(count: number): Promise<void> {
    const until = this.lists + count
    await waitFor(() => this.lists >= until, { what: 'the decider reads the moves' })
  }

  stop(): Promise<void> {
    return this.#decider.stop()
  }
}

function recordOf(id: string) {
  const times = { createdAtMs: 0, certificateNotAfterMs: 0 }
  return { id, version: 1, name: id, address: `${id}:1`, draining: false, serials: [], ...times }
}

describe('a gateway’s decision about a move', function () {
  let lab: Lab
  beforeEach(() => (lab = new Lab()))
  afterEach(() => lab.stop())

  const isForgotten = () => waitFor(() => lab.moves.length === 0, { what: 'the move is forgotten' })

  it('is sent first to the host that owns the guest, and then to the other host of the move', async () => {
    lab.moves = [switched]
    await isForgotten()
    expect(lab.told).to.deep.equal(['b 1 true', 'a 1 false'])
  })

  it('is sent to hosts only after replicas of the store have confirmed it', async () => {
    lab.confirm = async () => {
      throw new BerthError('unavailable', 'store_unavailable', 'no replica confirmed')
    }
    lab.moves = [switched]
    await lab.reads(2)
    expect(lab.told).to.deep.equal([])
    lab.confirm = async () => true
    await isForgotten()
  })

  it('is not sent to hosts if the store has lost the decision', async () => {
    lab.confirm = async () => false
    lab.moves = [switched]
    await lab.reads(2)
    expect(lab.told).to.deep.equal([])
  })

  it('keeps the copy on the source while the new owner (the target) does not answer', async () => {
    lab.answer = async (hostId) => {
      if (hostId === 'b') throw new BerthError('timeout', 'agent_timeout', 'no answer')
    }
    lab.moves = [switched]
    await lab.reads(2)
    expect(lab.told).to.deep.equal([])
  })

  for (const [what, lose] of [
    [
      'has lost the guest',
      () =>
        (lab.answer = async (_hostId, isOwner) => {
          if (isOwner && lab.moves[0] === switched) throw notFound('container')
        }),
    ],
    ['was removed from the fleet', () => lab.removed.add('b')],
  ] as const)
    it(`returns a guest to its source if the target ${what}`, async () => {
      lose()
      lab.show('handed_over')
      lab.decide = async () => {
        lab.moves = [{ ...move, decided: { ownerId: 'a', generation: 2 } }]
        return true
      }
      lab.moves = [switched]
      await isForgotten()
      expect(lab.decisions).to.deep.equal([`${uuid} return`])
      expect(lab.told.filter((one) => one.startsWith('a'))).to.deep.equal(['a 2 true'])
    })

  it('ends a move if the source was removed from the fleet', async () => {
    lab.removed.add('a')
    lab.decide = async () => {
      lab.moves = [{ ...move, decided: { ownerId: 'a', generation: 1 } }]
      return true
    }
    lab.moves = [{ ...move, fromHostId: 'a' }]
    await isForgotten()
    expect(lab.told).to.deep.equal(['b 1 false'])
  })

  it('is retried after a pause if the store does not accept it', async () => {
    lab.show('handed_over')
    lab.moves = [move]
    await waitFor(() => lab.decisions.length > 0, { what: 'a first decision' })
    await lab.stop()
    expect(lab.moves).to.deep.equal([move])
  })

  it('is not delayed if a host of another move does not answer', async () => {
    let answer = (): void => undefined
    lab.answer = () => new Promise((resolve) => (answer = resolve))
    lab.show('handed_over')
    lab.moves = [{ ...switched, id: 'slow', uuid: 'other' }, move]
    await waitFor(() => lab.decisions.includes(`${uuid} switch`), { what: 'the decision about the second move' })
    lab.answer = async () => undefined
    answer()
  })

  it('is sent to all hosts if the target is unknown, so that only the owner keeps its copy', async () => {
    lab.moves = [{ ...move, toHostId: '', decided: { ownerId: 'a', generation: 3 } }]
    await isForgotten()
    expect(lab.told).to.deep.equal(['a 3 true', 'b 3 false', 'c 3 false'])
  })

  it('stops an old copy of a guest that has another owner', async () => {
    lab.view.findState('c')!.outdated.set(uuid, 3)
    await waitFor(() => lab.told.length > 0, { what: 'a message to the host' })
    expect(lab.told[0]).to.equal('c 3 false')
  })

  it('ignores a late report of an outdated copy on the source host', async () => {
    lab.confirm = async () => false
    lab.view.findState('a')!.outdated.set(uuid, 1)
    lab.moves = [switched]
    await lab.reads(2)
    expect(lab.told).to.deep.equal([])
  })
})
