import { expect } from 'chai'
import { longestUnwitnessedMs, planLeave, planMaster, type MasterAnswer } from './plan-master.js'

const a = { host: '192.0.2.1', port: 6379 }
const b = { host: '192.0.2.2', port: 6379 }
const otherPort = { host: '192.0.2.1', port: 6380 }

describe('the choice of the Redis master', () => {
  const cases: [string, MasterAnswer[], MasterAnswer][] = [
    ['all Sentinels agree', [a, a, a], a],
    ['two of three agree', [a, b, a], a],
    ['one of three has not noticed the failover, in any order', [a, b, b], b],
    ['two of three answer and agree', [undefined, b, b], b],
    ['only one of three answers', [undefined, b, undefined], undefined],
    ['two of three answer and disagree', [a, b, undefined], undefined],
    ['the ports differ', [a, otherPort], undefined],
    ['two of four are not a majority', [a, a, b, b], undefined],
    ['a single Sentinel is its own majority', [a], a],
    ['no Sentinel answers', [undefined, undefined, undefined], undefined],
  ]
  for (const [name, answers, master] of cases) it(name, () => expect(planMaster(answers)).to.deep.equal(master))
})

describe('the decision to leave the Redis master', () => {
  const cases: [string, Parameters<typeof planLeave>[0], boolean][] = [
    ['stays with the confirmed master', { answer: a, current: a, unwitnessedMs: 0 }, false],
    ['leaves it as soon as a majority names another one', { answer: b, current: a, unwitnessedMs: 0 }, true],
    ['stays while replicas confirm its data', { answer: undefined, current: a, unwitnessedMs: 500 }, false],
    [
      'leaves it if nobody has confirmed it for a long time',
      { answer: undefined, current: a, unwitnessedMs: longestUnwitnessedMs + 1 },
      true,
    ],
  ]
  for (const [name, witnesses, isLeft] of cases) it(name, () => expect(planLeave(witnesses) !== '').to.equal(isLeft))
})
