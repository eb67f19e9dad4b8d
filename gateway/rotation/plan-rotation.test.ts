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
    ['continues as soon as all hosts trust both CAs', 'distributing', [both], {}, 'reissuing'],
    ['continues if there are no hosts', 'distributing', [], {}, 'reissuing'],
    ['ignores a host that has not joined', 'distributing', [host({ joined: false })], {}, 'reissuing'],
    ['ignores an excluded host', 'distributing', [host()], excluded, 'reissuing'],
    [
      'waits for a gateway that has not applied the present state',
      'distributing',
      [both],
      { applied: {} },
      'distributing',
    ],
    [
      'waits for a gateway that has applied only the former state',
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
    ['is ready to finish as soon as all hosts have certificates of the new CA', 'reissuing', [reissued], {}, 'ready'],
    ['stays ready to finish until the operator requests the end', 'ready', [reissued], {}, 'ready'],
    ['begins to finish as soon as the operator requests the end', 'ready', [reissued], { finishing: true }, 'ending'],
    [
      'does not begin to finish while a host still has a certificate of the old CA',
      'ready',
      [reissued, both],
      { finishing: true },
      'ready',
    ],
    ['waits until hosts trust only the new CA', 'ending', [converted, reissued], { finishing: true }, 'ending'],
    ['has ended as soon as all hosts trust only the new CA', 'ending', [converted], { finishing: true }, 'ended'],
    ['changes nothing after the end', 'ended', [host()], {}, 'ended'],
    ['changes nothing after a cancellation', 'canceled', [host()], {}, 'canceled'],
  ] as const)
    it(`${name}${next === state ? `, and keeps the state "${state}"` : `, and changes from "${state}" to "${next}"`}`, () => {
      const rotation: Rotation = { ...base, state, applied: { g: state }, ...more }
      const planned = planRotation(rotation, { hosts, gateways, nowMs: 9 })
      expect(planned.state).to.equal(next)
      if (next === state) expect(planned).to.equal(rotation)
      expect(planned.endedAtMs).to.equal(state === 'ending' && next === 'ended' ? 9 : 0)
    })

  for (const [name, state, { issuer, trusted }, step] of [
    ['makes a host trust both CAs', 'distributing', host(), { kind: 'trust', fingerprints: [oldCa, newCa] }],
    ['does nothing for a host that trusts both CAs', 'distributing', both, undefined],
    ['issues a certificate of the new CA to a host that trusts both CAs', 'reissuing', both, { kind: 'renew' }],
    ['first makes a host trust the new CA', 'reissuing', host(), { kind: 'trust', fingerprints: [oldCa, newCa] }],
    ['does nothing for a host that has a certificate of the new CA', 'ready', reissued, undefined],
    ['makes a host that was offline trust both CAs', 'ending', host(), { kind: 'trust', fingerprints: [oldCa, newCa] }],
    ['issues a certificate of the new CA to a host that was offline', 'ending', both, { kind: 'renew' }],
    ['ends the trust of a host in the old CA', 'ending', reissued, { kind: 'trust', fingerprints: [newCa] }],
    [
      'makes a host that has just joined trust only the new CA',
      'ending',
      host({ issuer: newCa }),
      { kind: 'trust', fingerprints: [newCa] },
    ],
    ['does nothing for a host that trusts only the new CA', 'ending', converted, undefined],
    ['ends the trust of a host in the new CA', 'canceled', both, { kind: 'trust', fingerprints: [oldCa] }],
    ['does nothing for a host that never trusted the new CA', 'canceled', host(), undefined],
  ] as const)
    it(`in the state "${state}", ${name}`, () =>
      expect(planHostStep({ ...base, state }, { issuer, trusted }, oldCa)).to.deep.equal(step))

  it('does nothing for a host if there was never a rotation', () =>
    expect(planHostStep(null, host(), oldCa)).to.equal(undefined))

  it('shows after the end of the rotation which excluded hosts still need a certificate of the new CA', () => {
    const ended: Rotation = { ...base, ...excluded, state: 'ended' }
    expect(hostsMissing(ended, [host({ joined: false })])).to.have.length(1)
    expect(hostsMissing(ended, [host({ issuer: newCa })])).to.deep.equal([])
  })

  it('can exclude further hosts with a repeated request to finish the rotation', () => {
    const once = planFinish(base, ['a'])
    expect(planFinish(once, ['a', 'b']))
      .to.include({ finishing: true })
      .and.to.have.property('excluded')
      .eql(['a', 'b'])
  })

  it('can be canceled only while the new CA is distributed', () => {
    expect(planCancel(base, 9)).to.include({ state: 'canceled', endedAtMs: 9 })
    expect(codeOf(() => planCancel({ ...base, state: 'reissuing' }, 9))).to.equal('invalid_state')
    expect(codeOf(() => planCancel(null, 9))).to.equal('invalid_state')
  })

  it('refuses a second rotation before the first rotation has ended', () => {
    expect(codeOf(() => refuseSecondRotation(base))).to.equal('rotation_running')
    expect(codeOf(() => refuseSecondRotation({ ...base, state: 'ended' }))).to.equal('ok')
  })
})
