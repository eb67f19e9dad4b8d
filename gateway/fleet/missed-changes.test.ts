import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import type { FleetChange } from './fleet-changes.js'
import { WatchSnapshot } from './snapshot.js'
import { FleetState } from './view.js'

const record = {
  id: 'a',
  version: 1,
  name: 'a',
  address: 'a:1',
  draining: false,
  createdAtMs: 0,
  serials: ['1'],
  certificateNotAfterMs: 1,
}
const uuidOf = (id: number): string => `00000000-0000-4000-8000-${String(id).padStart(12, '0')}`
const guest = (id: number, revision: number): Guest =>
  Guest.fromPartial({ uuid: uuidOf(id), id, name: `g${id}`, revision })
const task = (id: string, revision: number): Operation => Operation.fromPartial({ id, status: 'done', revision })

/**
 * Returns which changes of a host's first report are passed to listeners. The revision of each stored guest is its id.
 * The result must not depend on whether an unchanged guest in the report is the stored object (`reuses`) or a copy.
 */
function missed(epoch: string | undefined, revision: number): string[] {
  const [fresh, reused] = [false, true].map((reuses) => report(epoch, revision, reuses)) as [string[], string[]]
  expect(reused).to.deep.equal(fresh)
  return reused
}

function report(epoch: string | undefined, revision: number, reuses: boolean): string[] {
  const view = new FleetState()
  const host = view.setHost(record)
  const stored = [1, 2, 3].map((id) => guest(id, id))
  for (const one of stored) view.recall(host, one)
  if (epoch !== undefined) view.resume([{ id: 'a', name: 'a', online: true, epoch, revision }])
  const found: string[] = []
  view.changes.listen((change) => found.push(nameOf(change)))
  const snapshot = new WatchSnapshot()
  for (const value of [reuses ? stored[0]! : guest(1, 1), guest(2, 6), guest(4, 5)])
    snapshot.add({ $case: 'guest', value })
  for (const value of [task('old', 2), task('new', 7)]) snapshot.add({ $case: 'operation', value })
  view.replace(host, snapshot, { epoch: 'journal', revision: 7 })
  return found.sort()
}

function nameOf(change: FleetChange): string {
  if (change.kind === 'guest') {
    const { before, after } = change
    return `${(after ?? before)!.guest.name} ${after === undefined ? 'removed' : before ? 'updated' : 'created'}`
  }
  return change.kind === 'task' ? `task ${change.after?.operation.id}` : change.kind
}

describe('the first report of a host to a restarted gateway', () => {
  it('causes no events about guests and tasks if the previous gateway process did not know the host', () =>
    expect(missed(undefined, 0)).to.deep.equal([]))

  it('causes events about exactly the guests and tasks that changed since the last report', () =>
    expect(missed('journal', 4)).to.deep.equal(['g2 updated', 'g3 removed', 'g4 created', 'task new']))

  it('causes events about all guests and tasks if the host’s journal was replaced or restored', () => {
    const all = ['g1 updated', 'g2 updated', 'g3 removed', 'g4 created', 'task new', 'task old']
    expect(missed('another', 4)).to.deep.equal(all)
    expect(missed('journal', 9)).to.deep.equal(all)
  })
})
