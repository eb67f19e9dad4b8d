import { expect } from 'chai'
import { TrafficAction, TrafficMode } from '../../../proto/gen/berth/agent/v1/guest.js'
import { unlimitedTraffic } from '../record.js'
import { parseTrafficLimit } from './parse.js'

describe('a quota from the wire', () => {
  for (const [name, wire, expected] of [
    ['nothing sent', {}, {}],
    ['not set: the default', { mode: TrafficMode.TRAFFIC_MODE_UNSPECIFIED }, { mode: 'total' }],
    ['the words', { mode: TrafficMode.TRAFFIC_MODE_SPLIT, inGb: 5 }, { mode: 'split', inGb: 5 }],
    ['what follows', { action: TrafficAction.TRAFFIC_ACTION_THROTTLE }, { action: 'throttle' }],
    ['what follows by default', { action: TrafficAction.TRAFFIC_ACTION_UNSPECIFIED }, { action: 'stop' }],
  ] as const)
    it(`reads ${name}`, () => {
      const read = parseTrafficLimit(wire, unlimitedTraffic)
      expect(read).to.deep.equal({ ...unlimitedTraffic, ...expected })
    })

  for (const [name, wire, field] of [
    ['a mode of another version', { mode: 9 as TrafficMode }, 'traffic_mode'],
    ['a mode that is none', { mode: TrafficMode.UNRECOGNIZED }, 'traffic_mode'],
    ['an action of another version', { action: 9 as TrafficAction }, 'traffic_action'],
  ] as const)
    it(`refuses ${name}`, () =>
      expect(() => parseTrafficLimit(wire))
        .to.throw()
        .that.includes({ code: 'invalid_field', field }))
})
