import { expect } from 'chai'
import { longestUnwitnessedMs, planLeave, planMaster, planWitness, type MasterAnswer } from './plan-master.js'

const a = { host: '192.0.2.1', port: 6379 }
const b = { host: '192.0.2.2', port: 6379 }
const otherPort = { host: '192.0.2.1', port: 6380 }

describe('the Redis master that a majority of the Sentinels names', () => {
  const cases: [string, MasterAnswer[], MasterAnswer][] = [
    ['is known if all Sentinels agree', [a, a, a], a],
    ['is known if two of three Sentinels agree', [a, b, a], a],
    ['is the new master if one of three Sentinels has not noticed the failover', [a, b, b], b],
    ['is known if only two of three Sentinels answer, and both agree', [undefined, b, b], b],
    ['is unknown if only one of three Sentinels answers', [undefined, b, undefined], undefined],
    ['is unknown if only two of three Sentinels answer, and both disagree', [a, b, undefined], undefined],
    ['is unknown if the Sentinels name the same address with different ports', [a, otherPort], undefined],
    ['is unknown if only two of four Sentinels agree', [a, a, b, b], undefined],
    ['is known if the only Sentinel names it', [a], a],
    ['is unknown if no Sentinel answers', [undefined, undefined, undefined], undefined],
  ]
  for (const [name, answers, master] of cases) it(name, () => expect(planMaster(answers)).to.deep.equal(master))
})

describe('the last confirmation of the Redis master', () => {
  const [nowMs, confirmedMs] = [9000, 7000]
  const cases: [string, MasterAnswer[], number][] = [
    ['comes from a majority of the Sentinels if they name this master', [a, undefined, a], nowMs],
    ['comes from a replica if no Sentinel answers', [undefined, undefined, undefined], confirmedMs],
    ['does not come from a replica if a minority of the Sentinels answers', [a, undefined, undefined], 0],
    ['does not come from a replica if the Sentinels disagree', [a, b, undefined], 0],
    ['does not come from a replica if a majority names another master', [b, b, undefined], 0],
  ]
  for (const [name, answers, witnessedMs] of cases)
    it(name, () => expect(planWitness({ answers, current: a, nowMs, confirmedMs })).to.equal(witnessedMs))
})

describe('the decision of a gateway about its Redis master', () => {
  const cases: [string, Parameters<typeof planLeave>[0], boolean][] = [
    [
      'is to keep it if a majority of the Sentinels names this master',
      { answer: a, current: a, unwitnessedMs: 0 },
      false,
    ],
    [
      'is to leave it as soon as a majority of the Sentinels names another master',
      { answer: b, current: a, unwitnessedMs: 0 },
      true,
    ],
    [
      'is to keep it without a majority of the Sentinels for up to 10 s after the last confirmation',
      { answer: undefined, current: a, unwitnessedMs: 500 },
      false,
    ],
    [
      'is to leave it if neither a Sentinel majority nor a replica has confirmed the master for 10 s',
      { answer: undefined, current: a, unwitnessedMs: longestUnwitnessedMs + 1 },
      true,
    ],
  ]
  for (const [name, witnesses, isLeft] of cases) it(name, () => expect(planLeave(witnesses) !== '').to.equal(isLeft))
})
