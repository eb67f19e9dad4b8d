import { expect } from 'chai'
import { planTime } from './time-limits.js'

const [second, minute, hour] = [1000, 60_000, 3_600_000]
const effectOf = (expected: string): string =>
  expected
    .replace('nothing', 'have no effect on')
    .replace(/^warn (\d+)$/, 'warn that $1 s remain for')
    .replace(/^end (\d+) (\w+)$/, 'use the code $1 and the reason $2 to close')

describe('the time limits of a console', () => {
  for (const [name, kind, opened, typed, now, expected] of [
    ['a new terminal', 'ssh', 0, 0, 0, 'nothing'],
    ['a terminal after 28 minutes without input', 'ssh', 0, 0, 28 * minute, 'nothing'],
    ['a terminal after 29 minutes without input', 'ssh', 0, 0, 29 * minute, 'warn 60'],
    ['a terminal 1 ms before the end of 30 minutes without input', 'ssh', 0, 0, 30 * minute - 1, 'warn 1'],
    ['a terminal after 30 minutes without input', 'ssh', 0, 0, 30 * minute, 'end 4408 idle'],
    ['a terminal that is 30 minutes old and has recent input', 'ssh', 0, 29.5 * minute, 30 * minute, 'nothing'],
    ['a screen of a virtual machine after 30 minutes without input', 'vnc', 0, 0, 30 * minute, 'nothing'],
    [
      'a screen of a virtual machine 10 s before the end of an hour without input',
      'vnc',
      0,
      0,
      hour - 10 * second,
      'warn 10',
    ],
    ['a screen of a virtual machine after an hour without input', 'vnc', 0, 0, hour, 'end 4408 idle'],
    [
      'a terminal that was opened exactly twelve hours ago and receives input now',
      'ssh',
      0,
      12 * hour,
      12 * hour,
      'nothing',
    ],
    [
      'a terminal that was opened more than twelve hours ago, although it receives input now',
      'ssh',
      0,
      12 * hour,
      12 * hour + 1,
      'end 4408 too_long',
    ],
    [
      'a terminal that was opened eleven hours ago and received input a minute ago',
      'ssh',
      5 * hour,
      16 * hour,
      16 * hour + minute,
      'nothing',
    ],
  ] as const)
    it(`${effectOf(expected)} ${name}`, () => {
      const step = planTime({ kind, openedAtMs: opened, lastInputMs: typed }, now)
      const said =
        step.do === 'end'
          ? `end ${step.ending.code} ${step.ending.reason}`
          : step.do === 'warn'
            ? `warn ${step.seconds}`
            : step.do
      expect(said).to.equal(expected)
    })
})
