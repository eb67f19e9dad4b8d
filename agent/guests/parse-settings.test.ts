import { expect } from 'chai'
import { unlimitedTraffic } from './record/record.js'
import { parseTrafficLimit } from './parse-settings.js'

describe('a quota in a request', () => {
  for (const [name, wire, expected] of [
    ['an empty request', {}, {}],
    ['an empty mode as the default', { mode: '' }, { mode: 'total' }],
    ['a mode and a limit', { mode: 'split', inGb: 5 }, { mode: 'split', inGb: 5 }],
    ['an action', { action: 'throttle' }, { action: 'throttle' }],
    ['an empty action as the default', { action: '' }, { action: 'stop' }],
  ] as const)
    it(`reads ${name}`, () => {
      const read = parseTrafficLimit(wire, unlimitedTraffic)
      expect(read).to.deep.equal({ ...unlimitedTraffic, ...expected })
    })

  for (const [name, wire, field] of [
    ['a mode of another version', { mode: 'tomorrow' }, 'traffic_mode'],
    ['a mode in capitals', { mode: 'TOTAL' }, 'traffic_mode'],
    ['an action of another version', { action: 'tomorrow' }, 'traffic_action'],
  ] as const)
    it(`refuses ${name}`, () =>
      expect(() => parseTrafficLimit(wire))
        .to.throw()
        .that.includes({ code: 'invalid_field', field }))
})
