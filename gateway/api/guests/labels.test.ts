import { expect } from 'chai'
import { describeLabels } from './labels.js'

describe('the audit text of changed labels', () => {
  it('contains neither the note nor the placement rules', () => {
    const placement = { group: 'eu', labels: ['ssd'], spread: 'web', together: 'app' }
    const text = describeLabels({ tags: ['vip'], note: 'pays late', delete_protected: true, placement })
    expect(text).to.equal('tags vip, note changed, delete_protected true, placement changed')
  })
})
