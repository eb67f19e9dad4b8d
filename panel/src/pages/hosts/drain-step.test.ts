import { expect } from 'chai'
import type { Drain } from '../../api/types.ts'
import { drainCommandsOf } from './drain-step.ts'

describe('the commands that the panel offers for a drain', () => {
  for (const [state, direction, guests, commands] of [
    ['running', 'away', ['moved', 'moving'], ['pause', 'cancel']],
    ['paused', 'away', ['waiting'], ['resume', 'cancel']],
    ['canceled', 'away', ['moved', 'skipped'], ['resume', 'bring_back']],
    ['done', 'away', ['moved', 'failed'], ['resume', 'bring_back']],
    ['done', 'away', ['moved'], ['bring_back']],
    ['done', 'back', ['moved'], []],
  ] as const)
    it(`are ${commands.join(' and ') || 'none'} if the drain (${direction}) is ${state} and its guests are ${guests.join(' and ')}`, () => {
      const containers = guests.map((guest) => ({ state: guest }))
      expect(drainCommandsOf({ state, direction, containers } as unknown as Drain)).to.deep.equal(commands)
    })
})
