import { expect } from 'chai'
import {
  planCancel,
  planFinish,
  planHostStep,
  planRotation,
  refuseSecondRotation,
  hostsMissing,
} from './plan-rotation.js'
import type { Rotation, RotationHost } from './rotation.js'

const [oldCa, newCa] = ['old', 'new']
const base: Rotation = {
  id: 'r',
  state: 'distributing',
  from: oldCa,
  to: newCa,
  toPem: '',
  keys: {},
  applied: {},
  finishing: false,
  excluded: [],
  startedBy: 'test',
  startedAtMs: 1,
  endedAtMs: 0,
}
const host = (more: Partial<RotationHost> = {}): RotationHost => ({
  id: 'h',
  name: 'h',
  joined: true,
  issuer: undefined,
  trusted: undefined,
  upgrading: false,
  ...more,
})
const gateways = [{ id: 'g', name: 'g' }]
const both = host({ issuer: oldCa, trusted: [oldCa, newCa] })
const reissued = host({ issuer: newCa, trusted: [oldCa, newCa] })
const converted = host({ issuer: newCa, trusted: [newCa] })
const excluded = { excluded: ['h'] }

const codeOf = (work: () => unknown): string => {
  try {
    work()
    return 'ok'
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('the plan of a rotation of the CA', () => {
  for (const [name, state, hosts, more, next] of [
    ['waits for a host that trusts only the old CA', 'distributing', [host()], {}, 'distributing'],
    ['continues once all hosts trust both CAs', 'distributing', [both], {}, 'reissuing'],
    ['continues without hosts', 'distributing', [], {}, 'reissuing'],
    ['ignores a host that has not joined', 'distributing', [host({ joined: false })], {}, 'reissuing'],
    ['ignores an excluded host', 'distributing', [host()], excluded, 'reissuing'],
    ['waits for a gateway', 'distributing', [both], { applied: {} }, 'distributing'],
    [
      'waits for a gateway that has applied only the state before',
      'reissuing',
      [reissued],
      { applied: { g: 'distributing' } },
      'reissuing',
    ],
    ['waits for a host with a certificate of the old CA', 'reissuing', [both, reissued], {}, 'reissuing'],
    [
      'waits for a host whose agent is being upgraded',
      'reissuing',
      [{ ...reissued, upgrading: true }],
      {},
      'reissuing',
    ],
    ['is ready once all hosts have certificates of the new CA', 'reissuing', [reissued], {}, 'ready'],
    ['stays ready until the operator finishes it', 'ready', [reissued], {}, 'ready'],
    ['ends once the operator finishes it', 'ready', [reissued], { finishing: true }, 'ending'],
    ['does not end while a host joins with the old CA', 'ready', [reissued, both], { finishing: true }, 'ready'],
    ['waits until hosts trust only the new CA', 'ending', [converted, reissued], { finishing: true }, 'ending'],
    ['has ended once all hosts trust only the new CA', 'ending', [converted], { finishing: true }, 'ended'],
    ['changes nothing after its end', 'ended', [host()], {}, 'ended'],
    ['changes nothing after it was canceled', 'canceled', [host()], {}, 'canceled'],
  ] as const)
    it(`${name} (${state} → ${next})`, () => {
      const rotation: Rotation = { ...base, state, applied: { g: state }, ...more }
      const planned = planRotation(rotation, { hosts, gateways, nowMs: 9 })
      expect(planned.state).to.equal(next)
      if (next === state) expect(planned).to.equal(rotation)
      expect(planned.endedAtMs).to.equal(state === 'ending' && next === 'ended' ? 9 : 0)
    })

  for (const [name, state, { issuer, trusted }, step] of [
    ['lets a host trust both CAs first', 'distributing', host(), { kind: 'trust', fingerprints: [oldCa, newCa] }],
    ['does nothing for a host that trusts both', 'distributing', both, undefined],
    ['issues a certificate of the new CA', 'reissuing', both, { kind: 'renew' }],
    [
      'issues no such certificate to a host that does not trust the new CA',
      'reissuing',
      host(),
      { kind: 'trust', fingerprints: [oldCa, newCa] },
    ],
    ['does nothing for a host that has such a certificate', 'ready', reissued, undefined],
    ['still converts a late host at the end', 'ending', host(), { kind: 'trust', fingerprints: [oldCa, newCa] }],
    ['still issues a certificate to a late host at the end', 'ending', both, { kind: 'renew' }],
    ['ends the trust in the old CA', 'ending', reissued, { kind: 'trust', fingerprints: [newCa] }],
    [
      'lets a host that has joined at the end confirm its CA',
      'ending',
      host({ issuer: newCa }),
      { kind: 'trust', fingerprints: [newCa] },
    ],
    ['does nothing for a host that trusts only the new CA', 'ending', converted, undefined],
    ['ends the trust in the new CA after a cancellation', 'canceled', both, { kind: 'trust', fingerprints: [oldCa] }],
    ['does nothing after a cancellation for a host that never trusted the new CA', 'canceled', host(), undefined],
  ] as const)
    it(`${name} (${state})`, () =>
      expect(planHostStep({ ...base, state }, { issuer, trusted }, oldCa)).to.deep.equal(step))

  it('does nothing for hosts if there was no rotation', () =>
    expect(planHostStep(null, host(), oldCa)).to.equal(undefined))

  it('shows excluded hosts without a certificate of the new CA after the end, until they join again', () => {
    const ended: Rotation = { ...base, ...excluded, state: 'ended' }
    expect(hostsMissing(ended, [host({ joined: false })])).to.have.length(1)
    expect(hostsMissing(ended, [host({ issuer: newCa })])).to.deep.equal([])
  })

  it('adds excluded hosts with each request to finish', () => {
    const once = planFinish(base, ['a'])
    expect(planFinish(once, ['a', 'b']))
      .to.include({ finishing: true })
      .and.to.have.property('excluded')
      .eql(['a', 'b'])
  })

  it('can be canceled only while the new CA is being distributed', () => {
    expect(planCancel(base, 9)).to.include({ state: 'canceled', endedAtMs: 9 })
    expect(codeOf(() => planCancel({ ...base, state: 'reissuing' }, 9))).to.equal('invalid_state')
    expect(codeOf(() => planCancel(null, 9))).to.equal('invalid_state')
  })

  it('refuses a second rotation until the first one has ended', () => {
    expect(codeOf(() => refuseSecondRotation(base))).to.equal('rotation_running')
    expect(codeOf(() => refuseSecondRotation({ ...base, state: 'ended' }))).to.equal('ok')
  })
})
