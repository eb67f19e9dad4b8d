import { expect } from 'chai'
import { BackupSchedule, Guest, Snapshot, SnapshotSchedule } from '../../../proto/gen/berth/agent/v1/guest.js'
import { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import type { GuestView, OperationView } from '../../fleet/contract.js'
import { findSchedules, type ScheduleKind } from './find-schedules.js'

const lastRunMs = 1_700_000_000_000
const viewOf = (guest: Partial<Guest>): GuestView => ({ hostId: 'h', guest: Guest.fromPartial(guest) }) as GuestView
const task = (fields: Partial<Operation>): OperationView => ({
  hostId: 'h',
  operation: Operation.fromPartial({ createdAtMs: lastRunMs + 5, ...fields }),
})
const find = (guests: GuestView[], known?: OperationView, kinds: readonly ScheduleKind[] = ['backup', 'snapshot']) =>
  findSchedules(guests, { latestOperation: () => known }, kinds)

const schedule = (lastRun: number) => SnapshotSchedule.fromPartial({ intervalHours: 24, lastRunMs: lastRun })
const copy = (createdAtMs: number, scheduled = true) => Snapshot.fromPartial({ createdAtMs, scheduled })

describe('the result of the last run of a schedule', () => {
  for (const [name, lastRun, known, snapshots, expected] of [
    ['the status of its task', lastRunMs, task({ status: 'failed' }), [], 'failed'],
    ['running while its task runs', lastRunMs, task({ status: 'running' }), [], 'running'],
    ['done if its task is forgotten, but its copy exists', lastRunMs, undefined, [copy(lastRunMs)], 'done'],
    ['unknown if its task and its copy are gone', lastRunMs, undefined, [copy(lastRunMs - 1000)], 'unknown'],
    ['unknown if only a manual copy of that time exists', lastRunMs, undefined, [copy(lastRunMs, false)], 'unknown'],
    [
      'unknown if the newest task belongs to an earlier run',
      lastRunMs,
      task({ status: 'failed', createdAtMs: lastRunMs - 86_400_000 }),
      [],
      'unknown',
    ],
    ['never before the first run', 0, task({ status: 'failed' }), [], 'never'],
  ] as const)
    it(`is ${name}`, () => {
      const guest = viewOf({ snapshotSchedule: schedule(lastRun), snapshots: [...snapshots] })
      expect(find([guest], known).map(({ result }) => result)).to.deep.equal([expected])
    })
})

describe('the list of schedules', () => {
  const both = viewOf({ id: 7, snapshotSchedule: schedule(0), backupSchedule: backup() })
  function backup() {
    return BackupSchedule.fromPartial({ intervalHours: 6, targetId: 't' })
  }

  it('contains only schedules that are set, sorted by the ids of the guests', () => {
    const rows = find([both, viewOf({ id: 9 }), viewOf({ id: 2, snapshotSchedule: schedule(0) })])
    expect(rows.map(({ view, kind, targetId }) => [view.guest.id, kind, targetId])).to.deep.equal([
      [2, 'snapshot', ''],
      [7, 'backup', 't'],
      [7, 'snapshot', ''],
    ])
  })

  it('contains only the kinds that the caller may read', () =>
    expect(find([both], undefined, ['snapshot']).map(({ kind }) => kind)).to.deep.equal(['snapshot']))
})
