import { expect } from 'chai'
import { SteadyClock } from './steady-clock.js'

const second = 1000
const day = 86_400 * second
const start = Date.UTC(2026, 10, 21)

interface Passing {
  readonly wall: number
  readonly monotonic: number
}

/** By how much both clocks go on between two looks. */
const evenly = (ms: number): Passing => ({ wall: ms, monotonic: ms })
const jump = (ms: number): Passing => ({ wall: ms, monotonic: 0 })

describe('a clock that must be steady', () => {
  for (const [name, due, passing, isPast] of [
    ['a time that is ahead has not passed', 10 * second, [evenly(9 * second)], false],
    ['a time that passes evenly has passed at once', 10 * second, [evenly(10 * second)], true],
    ['a time before the start has not passed yet', -day, [evenly(100 * second)], false],
    ['a time before the start has passed once the clock was steady', -day, [evenly(120 * second)], true],
    ['a time that a jump skipped has not passed', day, [jump(25 * day), evenly(50 * second)], false],
    ['a jump back takes it back', day, [jump(25 * day), jump(-25 * day), evenly(200 * second)], false],
    ['a jump that stays counts once the clock was steady', day, [jump(25 * day), evenly(121 * second)], true],
    ['a small correction is no jump', 15 * second, [evenly(10 * second), jump(6 * second)], true],
  ] as const)
    it(name, () => {
      let [wallMs, monotonicMs] = [start, 0]
      const clock = new SteadyClock(
        () => wallMs,
        () => monotonicMs,
      )
      for (const { wall, monotonic } of passing) {
        wallMs += wall
        monotonicMs += monotonic
        clock.look()
      }
      expect(clock.isPast(start + due)).to.equal(isPast)
    })
})
