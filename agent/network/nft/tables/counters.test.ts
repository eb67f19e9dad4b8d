import { expect } from 'chai'
import { countersByGuest } from './counters.js'
import type { ElementId } from './plan-guest.js'

describe('the counters of guests', () => {
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
    ['received a40:2', 100],
    ['sent 02:be:00:00:00:01', 20],
  ])

  it('are found by the guest’s IPv4 address (received bytes) and by its MAC address (sent bytes)', () => {
    expect([...countersByGuest([guest], counted)]).to.deep.equal([['uuid-1', { rxBytes: 100, txBytes: 20 }]])
  })

  it('are omitted for a guest if one of its counters is missing', () => {
    const other = { ...guest, mac: '02:be:00:00:00:02' }
    expect([...countersByGuest([other], counted)]).to.deep.equal([])
  })
})
