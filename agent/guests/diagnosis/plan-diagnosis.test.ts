import { expect } from 'chai'
import { planDiagnosis, triesInside, triesThrough, type ConnectionFacts } from './plan-diagnosis.js'

const none = { caller: false, hostInside: false, hostOutside: false }
const well: ConnectionFacts = {
  port: 22,
  throttled: false,
  running: true,
  drops: none,
  listeners: [{ port: 22, isReachable: true }],
  outside: { address: '192.0.2.10', isThere: true },
  inside: 'open',
  through: 'open',
}
const untried = { inside: undefined, through: undefined }

/** Returns the steps that failed, or that have a code. */
const found = (facts: Partial<ConnectionFacts>): string[] =>
  planDiagnosis({ ...well, ...facts })
    .filter(({ state, code }) => state !== 'ok' || code !== '')
    .map(({ name, state, code }) => `${name} ${state} ${code}`)

describe('a connection check', () => {
  for (const [name, facts, steps] of [
    ['the port can be reached', {}, []],
    ['the guest is throttled', { throttled: true }, ['allowed ok throttled']],
    [
      'the guest is over its quota and stopped',
      { blockedBy: 'traffic_used_up', running: false, listeners: undefined, ...untried },
      [
        'allowed failed traffic_used_up',
        'running failed not_running',
        ...['listening', 'guest', 'connection'].map((step) => `${step} skipped earlier_step_failed`),
      ],
    ],
    [
      'no program listens on the port',
      { listeners: [{ port: 80, isReachable: true }], ...untried },
      [
        'listening failed nothing_listens',
        ...['guest', 'connection'].map((step) => `${step} skipped earlier_step_failed`),
      ],
    ],
    [
      'a program listens on the loopback interface only',
      { listeners: [{ port: 22, isReachable: false }], ...untried },
      [
        'listening failed listens_on_loopback',
        ...['guest', 'connection'].map((step) => `${step} skipped earlier_step_failed`),
      ],
    ],
    [
      'no mapping leads to the port',
      { outside: undefined, through: undefined },
      ['mapping failed no_mapping', 'connection skipped earlier_step_failed'],
    ],
    [
      'the host no longer has the address of the mapping',
      { outside: { address: '192.0.2.99', isThere: false }, through: undefined },
      ['mapping failed address_missing', 'connection skipped earlier_step_failed'],
    ],
    ['the firewall drops the caller', { drops: { ...none, caller: true } }, ['firewall failed firewall_drops']],
    [
      'the firewall admits the caller, but not the host',
      { drops: { ...none, hostInside: true, hostOutside: true }, ...untried },
      ['guest skipped host_not_let_in', 'connection skipped host_not_let_in'],
    ],
    [
      'a firewall in the guest drops packets',
      { inside: 'silent', through: undefined },
      ['guest failed guest_silent', 'connection skipped earlier_step_failed'],
    ],
    [
      'a firewall in the guest refuses connections',
      { inside: 'refused', through: undefined },
      ['guest failed guest_refuses', 'connection skipped earlier_step_failed'],
    ],
    ['the host does not forward connections', { through: 'silent' }, ['connection failed not_forwarded']],
    ['a virtual machine answers', { listeners: undefined }, []],
    [
      'no program listens in a virtual machine',
      { listeners: undefined, inside: 'refused', through: undefined },
      [
        'listening failed nothing_listens',
        ...['guest', 'connection'].map((step) => `${step} skipped earlier_step_failed`),
      ],
    ],
    [
      'a virtual machine does not respond',
      { listeners: undefined, inside: 'silent', through: undefined },
      ['listening skipped not_visible', 'guest failed guest_silent', 'connection skipped earlier_step_failed'],
    ],
  ] as const satisfies readonly (readonly [string, Partial<ConnectionFacts>, readonly string[]])[])
    it(`reports ${steps.length === 0 ? 'only success' : `“${steps[0]}”`} if ${name}`, () =>
      expect(found(facts)).to.deep.equal(steps))

  it('requests a test connection only if its result would show where the fault is', () => {
    const inside = (facts: Partial<ConnectionFacts>): boolean => triesInside({ ...well, ...facts })
    const through = (facts: Partial<ConnectionFacts>): boolean => triesThrough({ ...well, ...facts })
    expect([inside({}), inside({ listeners: undefined }), through({})]).to.deep.equal([true, true, true])
    expect(inside({ running: false })).to.equal(false)
    expect(inside({ listeners: [{ port: 22, isReachable: false }] })).to.equal(false)
    expect(inside({ drops: { ...none, hostInside: true } })).to.equal(false)
    expect(through({ inside: 'silent' })).to.equal(false)
    expect(through({ inside: undefined, drops: { ...none, hostInside: true } })).to.equal(true)
    expect(through({ drops: { ...none, hostOutside: true } })).to.equal(false)
    expect(through({ outside: { address: '192.0.2.9', isThere: false } })).to.equal(false)
  })
})
