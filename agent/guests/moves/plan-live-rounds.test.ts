import { expect } from 'chai'
import { countLarge, planLeftBytes, planStall, type Stall } from './plan-live-rounds.js'

const mib = 1024 ** 2
const minuteMs = 60_000

describe('the disk changes that can still be unsent when a guest is paused for a live move', () => {
  for (const [name, round, bandwidthMbps, expected] of [
    ['8 MiB if the last round was slow', { bytes: 1000, tookMs: 5000 }, 0, 8 * mib],
    ['the data of one second at the rate of the last transfer', { bytes: 900 * mib, tookMs: 9000 }, 0, 100 * mib],
    ['the data of one second at the bandwidth limit of the move', { bytes: 900 * mib, tookMs: 9000 }, 16, 2_000_000],
    ['1 MiB if the bandwidth limit is very low', { bytes: 1000, tookMs: 5000 }, 1, mib],
  ] as const)
    it(`are limited to ${name}`, () => expect(planLeftBytes(round, bandwidthMbps)).to.equal(expected))

  it('make the move fail if they exceed this limit in more than ten successive transfers', () => {
    const [large, small] = [
      { bytes: 9, tookMs: 1 },
      { bytes: 8, tookMs: 1 },
    ] as const
    let count = 0
    for (let round = 1; round <= 10; round++) count = countLarge(count, large, 8)
    expect(countLarge(count, small, 8)).to.equal(0)
    expect(() => countLarge(count, large, 8))
      .to.throw()
      .with.property('code', 'move_too_slow')
  })
})

describe('the rule for live moves of guests that change their memory too fast', () => {
  /** @param samples minute, share by which the guest is slowed down, and remaining bytes */
  function run(samples: readonly (readonly [number, number, number])[]): Stall | undefined {
    let stall: Stall | undefined
    for (const [minute, slowedPercent, remainingBytes] of samples)
      stall = planStall(stall, { slowedPercent, remainingBytes }, minute * minuteMs)
    return stall
  }

  for (const [name, samples] of [
    [
      'can be slowed down further',
      [
        [0, 60, 9],
        [6, 60, 9],
        [60, 60, 9],
      ],
    ],
    [
      'has less and less memory left to send',
      [
        [0, 70, 9],
        [4, 70, 8],
        [8, 70, 7],
      ],
    ],
    [
      'was slowed down less for some time',
      [
        [0, 70, 9],
        [4, 50, 9],
        [8, 70, 9],
      ],
    ],
  ] as const)
    it(`lets a move continue if its guest ${name}`, () => void run(samples))

  it('ends a move after five minutes without progress although the guest is slowed down as far as possible', () => {
    const samples = [
      [0, 70, 9],
      [2, 70, 12],
      [5, 70, 9],
    ] as const
    expect(run(samples)).to.deep.equal({ leastBytes: 9, sinceMs: 0 })
    expect(() => run([...samples, [5.1, 70, 9]]))
      .to.throw()
      .with.property('code', 'move_too_slow')
  })
})
