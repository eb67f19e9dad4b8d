import { expect } from 'chai'
import { longestUnwitnessedMs, planLeave, planMaster, planWitness, type MasterAnswer } from './plan-master.js'

const a = { host: '192.0.2.1', port: 6379 }
const b = { host: '192.0.2.2', port: 6379 }
const otherPort = { host: '192.0.2.1', port: 6380 }

describe('planMaster, which finds the Redis master that a majority of the Sentinels names,', () => {
  const cases: [string, MasterAnswer[], MasterAnswer][] = [
    ['finds the master if all Sentinels agree', [a, a, a], a],
    ['finds the master if two of three Sentinels agree', [a, b, a], a],
    ['finds the new master if one of three Sentinels has not noticed the failover', [a, b, b], b],
    ['finds the master if only two of three Sentinels answer, and both agree', [undefined, b, b], b],
    ['finds no master if only one of three Sentinels answers', [undefined, b, undefined], undefined],
    ['finds no master if only two of three Sentinels answer, and both disagree', [a, b, undefined], undefined],
    ['finds no master if the Sentinels name the same address with different ports', [a, otherPort], undefined],
    ['finds no master if only two of four Sentinels agree', [a, a, b, b], undefined],
    ['finds the master if the only Sentinel names it', [a], a],
    ['finds no master if no Sentinel answers', [undefined, undefined, undefined], undefined],
  ]
  for (const [name, answers, master] of cases) it(name, () => expect(planMaster(answers)).to.deep.equal(master))
})

describe('the last witness of the Redis master, which confirms that it is still the master,', () => {
  const [nowMs, confirmedMs] = [9000, 7000]
  const cases: [string, MasterAnswer[], number][] = [
    ['is a majority of the Sentinels if they name this master', [a, undefined, a], nowMs],
    ['is a replica if no Sentinel answers', [undefined, undefined, undefined], confirmedMs],
    ['is not a replica if a minority of the Sentinels answers', [a, undefined, undefined], 0],
    ['is not a replica if the Sentinels disagree', [a, b, undefined], 0],
    ['is not a replica if a majority names another master', [b, b, undefined], 0],
  ]
  for (const [name, answers, witnessedMs] of cases)
    it(name, () => expect(planWitness({ answers, current: a, nowMs, confirmedMs })).to.equal(witnessedMs))
})

describe('planLeave, which decides whether the gateway leaves its Redis master,', () => {
  const cases: [string, Parameters<typeof planLeave>[0], boolean][] = [
    ['stays with a master that a majority of the Sentinels names', { answer: a, current: a, unwitnessedMs: 0 }, false],
    [
      'leaves the master as soon as a majority of the Sentinels names a different one',
      { answer: b, current: a, unwitnessedMs: 0 },
      true,
    ],
    [
      'stays with the master if no majority of the Sentinels answers, but the last confirmation of the master is less than 10 s old',
      { answer: undefined, current: a, unwitnessedMs: 500 },
      false,
    ],
    [
      'leaves the master if neither a majority of the Sentinels nor a replica has confirmed it for more than 10 s',
      { answer: undefined, current: a, unwitnessedMs: longestUnwitnessedMs + 1 },
      true,
    ],
  ]
  for (const [name, witnesses, isLeft] of cases) it(name, () => expect(planLeave(witnesses) !== '').to.equal(isLeft))
})
