import { expect } from 'chai'
import { unlimitedTraffic } from './record/record.js'
import { parseTrafficLimit } from './parse-settings.js'

describe('the check of a change of a traffic quota', () => {
  for (const [name, wire, expected] of [
    ['an empty request as no change', {}, {}],
    ['an empty mode as the default mode', { mode: '' }, { mode: 'total' }],
    ['a traffic mode and a limit', { mode: 'split', inGb: 5 }, { mode: 'split', inGb: 5 }],
    ['the action for a guest that has used up its traffic', { action: 'throttle' }, { action: 'throttle' }],
    ['an empty action as the default action', { action: '' }, { action: 'stop' }],
  ] as const)
    it(`reads ${name}`, () => {
      const read = parseTrafficLimit(wire, unlimitedTraffic)
      expect(read).to.deep.equal({ ...unlimitedTraffic, ...expected })
    })

  for (const [name, wire, field] of [
    ['an unknown traffic mode', { mode: 'tomorrow' }, 'traffic_mode'],
    ['a traffic mode in capital letters', { mode: 'TOTAL' }, 'traffic_mode'],
    ['an unknown action', { action: 'tomorrow' }, 'traffic_action'],
  ] as const)
    it(`refuses ${name}`, () =>
      expect(() => parseTrafficLimit(wire))
        .to.throw()
        .that.includes({ code: 'invalid_field', field }))
})
