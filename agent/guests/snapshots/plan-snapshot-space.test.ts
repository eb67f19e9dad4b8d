import { expect } from 'chai'
import {
  planAllowance,
  planHeld,
  planRaised,
  planRetained,
  planSettled,
  planSpaceLimit,
  refuseBeyondSpace,
} from './plan-snapshot-space.js'
import { type GuestRecord } from '../record/record.js'
import { unmeasuredSpace, type SnapshotRecord, type SnapshotSpace } from '../record/snapshots-and-backups.js'

const gib = 1024 ** 3

const snapshotOf = (sizeGb: number): SnapshotRecord => ({
  id: `s${sizeGb}`,
  createdAtMs: 1,
  createdBy: 'test',
  scheduled: false,
  description: '',
  sizeBytes: sizeGb * gib,
  state: 'ready',
})

/** Returns a guest with a disk of 10 GB. The numbers are in GB. */
function guestOf(space: Partial<SnapshotSpace> | undefined, sizes: readonly number[] = []): GuestRecord {
  const measured = { limitBytes: 0, retainedBytes: 0, allowanceBytes: 0, isMeasured: true }
  const inBytes = Object.entries(space ?? {}).map(([key, value]) => [
    key,
    typeof value === 'number' ? value * gib : value,
  ])
  return {
    snapshotSpace: space ? { ...measured, ...Object.fromEntries(inBytes) } : unmeasuredSpace,
    snapshots: sizes.map(snapshotOf),
    spec: { limits: { diskGb: 10 } },
  } as unknown as GuestRecord
}

describe('the space of a guest’s snapshots', () => {
  it('is limited to twice the size of the disk if no administrator has set a limit', () => {
    expect(planSpaceLimit(guestOf(undefined)) / gib).to.equal(20)
    expect(planSpaceLimit(guestOf({ limitBytes: 3 })) / gib).to.equal(3)
  })

  it('is estimated from the sizes of snapshots if it was not measured', () => {
    const record = guestOf(undefined, [4, 7])
    expect([planRetained(record) / gib, planAllowance(record) / gib]).to.deep.equal([7, 7])
  })

  for (const [name, expected, isRefused] of [
    ['reaches the limit', 20, false],
    ['exceeds the limit', 20.01, true],
  ] as const)
    it(`${isRefused ? 'cannot grow' : 'can grow'} by a new snapshot if the space with this snapshot ${name}`, () => {
      const check = (): void => refuseBeyondSpace(guestOf(undefined), expected * gib)
      if (isRefused) expect(check).to.throw('20.01 GB, but the limit is 20.00 GB')
      else expect(check).not.to.throw()
    })

  for (const [name, measured, retained, expected] of [
    ['the measured space if this is less than the space limit', 12, 5, 12],
    ['at most the space limit of the snapshots plus the size of the disk', 80, 5, 30],
    ['at most the size of the disk plus the space of older snapshots that already exceed the space limit', 80, 25, 35],
  ] as const)
    it(`raises the disk limit after a new snapshot by ${name}`, () => {
      const raised = planRaised(guestOf({ retainedBytes: retained }), { measured: measured * gib, diskBytes: 10 * gib })
      expect(raised / gib).to.equal(expected)
    })

  for (const [name, { retained, usage, sizes, counts = true }, expected] of [
    [
      'does not change after a deletion if neither the disk usage nor the newest snapshot is smaller',
      { retained: 6, usage: 9, sizes: [6] },
      [6, 6],
    ],
    [
      'falls to the disk usage of the guest after a deletion if this usage is smaller',
      { retained: 6, usage: 4, sizes: [3, 6] },
      [4, 4],
    ],
    [
      'falls to the size of the newest remaining snapshot after a deletion if this size is smaller',
      { retained: 6, usage: 9, sizes: [3] },
      [3, 3],
    ],
    [
      'stays the same after a deletion if the size of the newest remaining snapshot is unknown',
      { retained: 6, usage: 9, sizes: [0] },
      [6, 6],
    ],
    ['becomes 0 after the deletion of the last snapshot', { retained: 6, usage: 9, sizes: [] }, [0, 0]],
    [
      'no longer raises the disk limit after a deletion if snapshots do not count towards this limit',
      { retained: 6, usage: 9, sizes: [3], counts: false },
      [6, 0],
    ],
  ] as const satisfies readonly [string, SettleCase, [number, number]][])
    it(name, () => {
      const record = guestOf({ retainedBytes: retained, allowanceBytes: 30 })
      const { retainedBytes, allowanceBytes } = planSettled(record, {
        present: sizes.map(snapshotOf),
        usageBytes: usage * gib,
        snapshotsCount: counts,
      })
      expect([retainedBytes / gib, allowanceBytes / gib]).to.deep.equal(expected)
    })
})

interface SettleCase {
  readonly retained: number
  readonly usage: number
  readonly sizes: readonly number[]
  readonly counts?: boolean
}

describe('the space that the snapshot of a warm standby retains', () => {
  for (const [name, diskGb, takenGb, expected] of [
    ['is the data that the disk had when it was taken', 10, 3, 3],
    ['is at most the disk size, because the measured usage includes other snapshots', 10, 25, 10],
    ['is the disk size if the data was not measured', 10, 0, 10],
  ] as const)
    it(name, () => {
      const heldBytes = planHeld({ diskBytes: diskGb * gib, takenBytes: takenGb * gib })
      expect(heldBytes).to.equal(expected * gib)
    })
})
