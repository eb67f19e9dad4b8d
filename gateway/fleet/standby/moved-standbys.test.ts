import { expect } from 'chai'
import { pino } from 'pino'
import { conflict } from '../../../shared/errors.js'
import type { GuestView } from '../contract.js'
import { MovedStandbys, type MovedStandbysOptions } from './moved-standbys.js'
import type { StoredStandby } from './standby-store.js'

const stored = { standbyId: 's1', hostId: 'b', fromHostId: 'a', intervalMinutes: 10, bandwidthMbps: 7 }
const guest = { uuid: 'u1', name: 'db1', virtualization: 'lxc', status: 'running', revision: 40 }

/** A guest with a standby on `b` that has moved from `a` to `c`. */
class Lab {
  readonly calls: string[] = []
  records = new Map<string, StoredStandby>([['u1', stored]])
  hostId = 'c'
  hasFeature = true
  refusal: Error | undefined
  relocating: readonly string[] = []
  /** Called when the host has set the standby. */
  onSet = (): void => undefined

  async restore(): Promise<boolean> {
    const changeSetting = async ({ ifRevision, change }: { ifRevision: number; change: { value: StoredStandby } }) => {
      const { hostId, intervalMinutes, bandwidthMbps } = change.value
      this.calls.push(`set ${hostId}/${intervalMinutes}/${bandwidthMbps} at ${ifRevision}`)
      if (this.refusal) throw this.refusal
      this.onSet()
      return { guest: { revision: ifRevision + 1 } }
    }
    const former = { name: 'a', draining: true, maintenance: [], description: undefined }
    const options = {
      view: {
        findGuest: () => ({ hostId: this.hostId, online: true, guest }) as unknown as GuestView,
        findHost: () => former,
        findState: () => undefined,
      },
      standbys: { agent: () => ({ settings: { changeSetting } }), hasFeature: () => this.hasFeature },
      standbyStore: {
        replace: async (uuid: string, id: string, next?: StoredStandby) => {
          if (this.records.get(uuid)?.standbyId !== id) return false
          this.calls.push(next ? `store ${next.hostId} from ${next.fromHostId}` : 'remove')
          return true
        },
      },
      reached: async () => undefined,
      standbyEnded: async (_guest: GuestView, reason: string) => void this.calls.push(`note: ${reason}`),
      log: pino({ level: 'silent' }),
    }
    const moved = new MovedStandbys(options as unknown as MovedStandbysOptions)
    return moved.restoreAll(new Set(this.relocating), new Map(this.records))
  }
}

describe('setting the standby of a moved guest again', () => {
  it('changes the guest first, and then the store', async () => {
    const lab = new Lab()
    expect(await lab.restore()).to.equal(false)
    expect(lab.calls).to.deep.equal(['set b/10/7 at 40', 'store b from c'])
  })

  it('is undone if an administrator has removed the standby meanwhile', async () => {
    const lab = new Lab()
    lab.onSet = () => void (lab.records = new Map())
    expect(await lab.restore()).to.equal(true)
    expect(lab.calls).to.deep.equal(['set b/10/7 at 40', 'set /0/0 at 41'])
  })

  for (const [name, change, isSoon, calls] of [
    ['waits for the end of the move', { relocating: ['u1'] }, true, []],
    ['waits for a newer agent on the new host', { hasFeature: false }, false, []],
    [
      'is tried again soon if the guest was changed meanwhile',
      { refusal: conflict('precondition_failed', '') },
      true,
      ['set b/10/7 at 40'],
    ],
    [
      'is tried again later if the host refuses',
      { refusal: conflict('invalid_state', '') },
      false,
      ['set b/10/7 at 40'],
    ],
    ['ends with a note before the record is removed', { hostId: 'b' }, false, ['note: host a is draining', 'remove']],
  ] as const)
    it(name, async () => {
      const lab = Object.assign(new Lab(), change as Partial<Lab>)
      expect(await lab.restore()).to.equal(isSoon)
      expect(lab.calls).to.deep.equal(calls)
    })
})
