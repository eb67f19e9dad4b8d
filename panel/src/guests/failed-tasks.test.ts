import { expect } from 'chai'
import { FailedTasks } from './failed-tasks.ts'

const task = (id: string, status: 'running' | 'done' | 'failed', at = '', user = 'ada') => ({
  task_id: id,
  status,
  user,
  finished_at: status === 'running' ? '' : `2026-01-01 10:00:0${at}`,
})
const idsOf = (tasks: readonly { readonly task_id: string }[]): string[] => tasks.map(({ task_id: id }) => id)

describe('notices of failed tasks', () => {
  it('ignore tasks that had failed before the page was opened', () => {
    expect(new FailedTasks().take([task('a', 'failed', '1')], 'ada')).to.deep.equal([])
  })

  it('report each failure of the user once', () => {
    const failed = new FailedTasks()
    failed.take([task('a', 'running')], 'ada')
    const rows = [task('b', 'done', '2'), task('a', 'failed', '2'), task('c', 'failed', '2', 'grace')]
    expect(idsOf(failed.take(rows, 'ada'))).to.deep.equal(['a'])
    expect(failed.take(rows, 'ada')).to.deep.equal([])
  })

  it('ignore old failures that move up in the list', () => {
    const failed = new FailedTasks()
    failed.take([task('b', 'done', '5')], 'ada')
    expect(failed.take([task('a', 'failed', '1')], 'ada')).to.deep.equal([])
  })
})
