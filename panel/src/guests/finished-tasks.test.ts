import { expect } from 'chai'
import { ApiFailure } from '../api/failure.ts'
import { findFinished, readAtOnce, removeAll } from './finished-tasks.ts'

describe('finished tasks', () => {
  const failed = Array.from({ length: readAtOnce + 2 }, (_, at) => ({ task_id: `failed-${at}` }))
  const lists = { done: [{ task_id: 'done-1' }], failed, canceled: [] }
  const read = (status: keyof typeof lists, page: number) =>
    Promise.resolve({
      rows: lists[status].slice((page - 1) * readAtOnce, page * readAtOnce),
      total: lists[status].length,
    })

  for (const [name, status, count] of [
    ['are found on all pages of all statuses', '', readAtOnce + 3],
    ['are found by their status', 'done', 1],
    ['do not include running tasks', 'running', 0],
  ] as const)
    it(name, async () => expect(await findFinished(status, read)).to.have.length(count))

  it('are all removed, also if one of them is already removed', async () => {
    const removed: string[] = []
    await removeAll(['a', 'b', 'c', 'd', 'e', 'f'], (id) => {
      removed.push(id)
      return id === 'b' ? Promise.reject(new ApiFailure('not_found', 'gone')) : Promise.resolve()
    })
    expect(removed.sort().join('')).to.equal('abcdef')
  })

  it('are removed as far as possible, and the first failure is reported', async () => {
    const removed: string[] = []
    let reported: unknown
    await removeAll(['a', 'b', 'c', 'd', 'e', 'f'], (id) => {
      removed.push(id)
      return id === 'a' ? Promise.reject(new ApiFailure('host_offline', 'offline')) : Promise.resolve()
    }).catch((thrown: unknown) => (reported = thrown))
    expect(removed).to.have.length(6)
    expect(reported).to.be.instanceOf(ApiFailure).with.property('code', 'host_offline')
  })
})
