import { expect } from 'chai'
import { lacksTarget, scheduleForm, type SavedSchedule } from './schedule.ts'

const unset: SavedSchedule = { enabled: false, interval_hours: 0, time: '', retention: 0, target_id: '' }
const set: SavedSchedule = { enabled: true, interval_hours: 6, time: '00:00', retention: 0, target_id: 'b' }

describe('the form of a schedule', () => {
  it('proposes values for a schedule that was never set', () => {
    const proposed = { enabled: false, hours: 24, time: '03:00', retention: 3, target: 'a' }
    expect(scheduleForm(unset, ['a', 'b'])).to.deep.equal(proposed)
  })

  it('shows the saved values, also if there is no limit of retained backups', () => {
    const shown = { enabled: true, hours: 6, time: '00:00', retention: 0, target: 'b' }
    expect(scheduleForm(set, ['a', 'b'])).to.deep.equal(shown)
  })

  it('leaves the target open if the saved one was removed', () => {
    expect(scheduleForm(set, ['a']).target).to.equal('')
    expect([lacksTarget(set, ['a']), lacksTarget(set, ['b']), lacksTarget(unset, ['a'])]).to.deep.equal([
      true,
      false,
      false,
    ])
  })
})
