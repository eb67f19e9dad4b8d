import { expect } from 'chai'
import { sumCounters } from './counters.js'
import type { ElementId } from './plan-guest.js'

describe('counters of guests', () => {
  const guest = {
    uuid: 'uuid-1',
    device: 'bt1',
    mac: '02:be:00:00:00:01',
    ipv4: '10.64.0.2',
    portMappings: [],
    publicIpv4s: [],
    ipv6Addresses: ['2001:db8::2'],
  }
  const counted = new Map<ElementId, number>([
    ['received 10.64.0.2', 100],
    ['sent 10.64.0.2', 20],
    ['received6 2001:db8::2', 3],
    ['sent6 2001:db8::2', 4],
  ])

  it('are those of all its addresses', () => {
    expect([...sumCounters([guest], counted)]).to.deep.equal([['uuid-1', { rxBytes: 103, txBytes: 24 }]])
  })

  it('are missing while one of them is', () => {
    const less = new Map([...counted].slice(0, 3))
    expect([...sumCounters([guest], less)]).to.deep.equal([])
  })
})
