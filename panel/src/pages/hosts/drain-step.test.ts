import { expect } from 'chai'
import type { Drain } from '../../api/types.ts'
import { drainCommandsOf } from './drain-step.ts'

describe('the commands that the panel offers for a drain', () => {
  for (const [state, direction, guests, commands] of [
    ['running', 'away', ['done', 'active'], ['pause', 'cancel']],
    ['paused', 'away', ['waiting'], ['resume', 'cancel']],
    ['canceled', 'away', ['done', 'skipped'], ['resume', 'bring_back']],
    ['done', 'away', ['done', 'failed'], ['resume', 'bring_back']],
    ['done', 'away', ['done'], ['bring_back']],
    ['done', 'back', ['done'], []],
  ] as const)
    it(`are ${commands.join(' and ') || 'none'} for direction ${direction}, state ${state} and guests with the states ${guests.join(', ')}`, () => {
      const containers = guests.map((guest) => ({ state: guest }))
      expect(drainCommandsOf({ state, direction, containers } as unknown as Drain)).to.deep.equal(commands)
    })
})
