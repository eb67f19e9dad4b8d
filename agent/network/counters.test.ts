import { expect } from 'chai'
import { countersByGuest } from './counters.js'

describe('counters of guests', () => {
  const guest = { uuid: 'uuid-1', device: 'bt1' }
  const counted = new Map([
    ['received_bt1', 100],
    ['sent_bt1', 20],
    ['sent_bt10', 7],
  ])

  it('are those of its device', () => {
    expect([...countersByGuest([guest], counted)]).to.deep.equal([['uuid-1', { rxBytes: 100, txBytes: 20 }]])
  })

  it('are missing while one of them is', () => {
    expect([...countersByGuest([{ ...guest, device: 'bt10' }], counted)]).to.deep.equal([])
  })
})
