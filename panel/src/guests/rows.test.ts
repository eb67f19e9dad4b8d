import { expect } from 'chai'
import type { Guest, Task } from '../api/types.ts'
import { parseChange } from '../live/changes.ts'
import { applyToGuests, applyToTasks, keptTasks } from './rows.ts'

const guest = (id: number, name = `g${id}`) => ({ id, uuid: `u${id}`, name }) as Guest
const task = (id: number, status = 'pending') => ({ task_id: `t${id}`, status }) as Task
const told = (type: string, data: object) => parseChange(JSON.stringify({ type, data }))

describe('the lists in the panel', () => {
  for (const [what, changes, names] of [
    ['stay the same without an event', [], ['g1', 'g3']],
    ['show the new data of a changed guest', [told('guest.updated', guest(3, 'new'))], ['g1', 'new']],
    ['contain a new guest in the order of the ids', [told('guest.created', guest(2))], ['g1', 'g2', 'g3']],
    ['no longer contain a deleted guest', [told('guest.removed', { id: 1, uuid: 'u1' })], ['g3']],
    [
      'stay the same after the deletion of an unknown guest',
      [told('guest.removed', { id: 9, uuid: 'u9' })],
      ['g1', 'g3'],
    ],
    [
      'do not contain a guest that was added, changed and deleted',
      [
        told('guest.created', guest(2)),
        told('guest.updated', guest(2, 'x')),
        told('guest.removed', { id: 2, uuid: 'u2' }),
      ],
      ['g1', 'g3'],
    ],
    [
      'contain a guest that was deleted and added again',
      [told('guest.removed', { id: 1, uuid: 'u1' }), told('guest.created', guest(1, 'back'))],
      ['back', 'g3'],
    ],
  ] as const)
    it(what, () => {
      const rows = applyToGuests([guest(1), guest(3)], changes)
      expect(rows.map(({ name }) => name)).to.deep.equal(names)
    })

  it('keep only a limited number of tasks, and drop the oldest tasks first', () => {
    const rows = Array.from({ length: keptTasks }, (_, at) => task(keptTasks - at))
    const after = applyToTasks(rows, [
      told('task.running', task(keptTasks, 'running')),
      told('task.pending', task(101)),
      told('task.pending', task(102)),
      told('task.removed', { task_id: `t${keptTasks - 1}` }),
    ])
    const ids = after.map(({ task_id }) => task_id)
    expect(ids.slice(0, 4)).to.deep.equal(['t102', 't101', `t${keptTasks}`, `t${keptTasks - 2}`])
    expect(after[2]?.status).to.equal('running')
    expect(after).to.have.length(keptTasks)
  })
})
