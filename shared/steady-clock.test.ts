import { expect } from 'chai'
import { SteadyClock } from './steady-clock.js'

const dayMs = 86_400_000
const minuteMs = 60_000
const startMs = Date.UTC(2026, 10, 25)

/** Makes a steady clock whose wall time and monotonic time the test sets. */
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

describe('the steady clock (which ignores jumps of the wall clock)', () => {
  for (const days of [40, -40, 25, 3650])
    it(`ignores a jump of the wall clock by ${days} days that is reversed after 50 s`, () => {
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

  it('accepts a jump of the wall clock after 5 minutes without another jump', () => {
    const { clock, pass, jump, since } = lab()
    jump(40 * dayMs)
    pass(4 * minuteMs)
    expect(since()).to.equal(4 * minuteMs)
    pass(minuteMs)
    expect(since()).to.equal(40 * dayMs + 5 * minuteMs)
    expect(clock.jumpMs()).to.equal(0)
  })

  it('waits another 5 minutes after each further jump before it accepts the wall clock', () => {
    const { pass, jump, since } = lab()
    jump(40 * dayMs)
    pass(4 * minuteMs)
    jump(dayMs)
    pass(4 * minuteMs)
    expect(since()).to.equal(8 * minuteMs)
  })

  it('accepts a correction of 30 seconds immediately', () => {
    const { clock, pass, jump, since } = lab()
    pass(10 * minuteMs)
    jump(30_000)
    expect(since()).to.equal(10 * minuteMs + 30_000)
    expect(clock.isSettled()).to.equal(true)
  })

  for (const [name, bootId, jumpMs, settled] of [
    ['trusts the wall clock immediately if it has not jumped since an earlier process trusted it', 'boot-1', 0, true],
    ['does not trust the wall clock at first if the earlier process ran before a reboot', 'boot-2', 0, false],
    [
      'does not trust the wall clock at first if the wall clock jumped between the two processes',
      'boot-1',
      40 * dayMs,
      false,
    ],
  ] as const)
    it(name, () => {
      const earlier = new SteadyClock({ wall: () => startMs, monotonic: () => 1000 })
      const clock = new SteadyClock({ wall: () => startMs + 5000 + jumpMs, monotonic: () => 6000 })
      clock.resume(earlier.mark('boot-1'), bootId)
      expect(clock.isSettled()).to.equal(settled)
    })
})
