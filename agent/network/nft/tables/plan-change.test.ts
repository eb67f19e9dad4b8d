import { expect } from 'chai'
import { noChange, planTableChange, type TableChange } from './plan-change.js'
import { countersOf, type ElementId } from './plan-guest.js'

const first: ElementId = 'guests "bt1" . 02:be:00:00:00:01 . 10.64.0.2'
const second: ElementId = 'guests "bt2" . 02:be:00:00:00:02 . 10.64.0.2'

describe('the plan of an nft transaction', () => {
  const held = { noteOf: () => undefined, countedBy: () => 0 }

  it('removes elements before it adds new ones', () => {
    const change: TableChange = {
      ...noChange,
      remove: [first, 'ports 6 . 20001', 'ports 6 . 20002'],
      add: new Map([
        [second, ''],
        ['ports 6 . 20001', '10.64.0.2 . 22'],
      ]),
    }
    expect(planTableChange('berth', change, held)).to.deep.equal([
      'delete element bridge berth guests { "bt1" . 02:be:00:00:00:01 . 10.64.0.2 }',
      'delete element ip berth ports { 6 . 20001, 6 . 20002 }',
      'add element bridge berth guests { "bt2" . 02:be:00:00:00:02 . 10.64.0.2 }',
      'add element ip berth ports { 6 . 20001 : 10.64.0.2 . 22 }',
    ])
    expect(planTableChange('berth', noChange, held)).to.deep.equal([])
  })

  it('adds a chain before the elements that jump to it, and removes the chain after these elements', () => {
    const note = (device: string): string => `note_${device}_x`
    const set: TableChange = {
      ...noChange,
      add: new Map([['firewall_in 10.64.0.2', 'jump in_bt1']]),
      setFirewalls: [{ device: 'bt1', in: ['drop'], out: ['return'] }],
    }
    expect(planTableChange('berth', set, { ...held, noteOf: note })).to.deep.equal([
      'delete chain inet berth note_bt1_x',
      'add chain inet berth in_bt1',
      'flush chain inet berth in_bt1',
      'add chain inet berth out_bt1',
      'flush chain inet berth out_bt1',
      'add rule inet berth in_bt1 drop',
      'add rule inet berth out_bt1 return',
      'add element inet berth firewall_in { 10.64.0.2 : jump in_bt1 }',
    ])
    const drop: TableChange = { ...noChange, remove: ['firewall_in 10.64.0.2'], dropFirewalls: ['bt1'] }
    expect(planTableChange('berth', drop, { ...held, noteOf: note })).to.deep.equal([
      'delete element inet berth firewall_in { 10.64.0.2 }',
      'delete chain inet berth note_bt1_x',
      'add chain inet berth in_bt1',
      'flush chain inet berth in_bt1',
      'delete chain inet berth in_bt1',
      'add chain inet berth out_bt1',
      'flush chain inet berth out_bt1',
      'delete chain inet berth out_bt1',
    ])
  })

  it('creates lost counters again with their last number of bytes', () => {
    const ids = countersOf({ mac: '02:be:00:00:00:01', ipv4: '10.64.0.2' })
    const add = new Map(ids.map((id) => [id, '']))
    const countedBy = (id: ElementId): number => (id === ids[0] ? 1500 : 0)
    expect(planTableChange('berth', { ...noChange, add }, { ...held, countedBy })).to.deep.equal([
      'add element inet berth received { a40:2 counter packets 0 bytes 1500 }',
      'add element inet berth sent { 02:be:00:00:00:01 }',
    ])
  })
})
