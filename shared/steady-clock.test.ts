import { expect } from 'chai'
import { SteadyClock } from './steady-clock.js'

const dayMs = 86_400_000
const minuteMs = 60_000
const startMs = Date.UTC(2026, 10, 25)

/** A clock of which wall and monotonic time are set by the test. */
function lab() {
  let [wall, monotonic] = [startMs, 1000]
  const clock = new SteadyClock({ wall: () => wall, monotonic: () => monotonic })
  return {
    clock,
    pass: (ms: number) => ((wall += ms), (monotonic += ms), clock.now()),
    jump: (ms: number) => ((wall += ms), clock.now()),
    since: () => clock.now() - startMs,
  }
}

describe('steady clock', () => {
  for (const days of [40, -40, 25, 3650])
    it(`does not follow a clock that is wrong by ${days} days for 50 s`, () => {
      const { clock, pass, jump, since } = lab()
      pass(10 * minuteMs)
      jump(days * dayMs)
      pass(50_000)
      expect(since()).to.equal(10 * minuteMs + 50_000)
      expect(clock.jumpMs()).to.equal(days * dayMs)
      expect(clock.isSettled()).to.equal(false)
      expect(clock.earliest() - startMs).to.equal(10 * minuteMs + 50_000 + Math.min(0, days * dayMs))
      expect(clock.latest() - startMs).to.equal(10 * minuteMs + 50_000 + Math.max(0, days * dayMs))
      jump(-days * dayMs)
      expect(clock.jumpMs()).to.equal(0)
      expect(since()).to.equal(10 * minuteMs + 50_000)
      expect(clock.isSettled()).to.equal(true)
    })

  it('follows a jump that stays', () => {
    const { clock, pass, jump, since } = lab()
    jump(40 * dayMs)
    pass(4 * minuteMs)
    expect(since()).to.equal(4 * minuteMs)
    pass(minuteMs)
    expect(since()).to.equal(40 * dayMs + 5 * minuteMs)
    expect(clock.jumpMs()).to.equal(0)
  })

  it('begins to wait again with each further jump', () => {
    const { pass, jump, since } = lab()
    jump(40 * dayMs)
    pass(4 * minuteMs)
    jump(dayMs)
    pass(4 * minuteMs)
    expect(since()).to.equal(8 * minuteMs)
  })

  it('follows synchronisation by seconds at once', () => {
    const { clock, pass, jump, since } = lab()
    pass(10 * minuteMs)
    jump(30_000)
    expect(since()).to.equal(10 * minuteMs + 30_000)
    expect(clock.isSettled()).to.equal(true)
  })

  for (const [name, bootId, jumpMs, settled] of [
    ['the same boot and offset', 'boot-1', 0, true],
    ['another boot', 'boot-2', 0, false],
    ['a jump while no process watched', 'boot-1', 40 * dayMs, false],
  ] as const)
    it(`is settled at once only after a process of the same boot and offset: ${name}`, () => {
      const earlier = new SteadyClock({ wall: () => startMs, monotonic: () => 1000 })
      const clock = new SteadyClock({ wall: () => startMs + 5000 + jumpMs, monotonic: () => 6000 })
      clock.resume(earlier.mark('boot-1'), bootId)
      expect(clock.isSettled()).to.equal(settled)
    })
})
