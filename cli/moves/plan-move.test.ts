import { expect } from 'chai'
import { moveSentences, type MovePlan } from './plan-move.js'

const plan = (fields: Partial<MovePlan> = {}): MovePlan => ({
  task_id: '',
  container_name: 'web1',
  from_host_id: 'a',
  to_host_id: 'b',
  public_ipv4s: [],
  ipv6_addresses: [],
  port_mappings: [],
  shuts_down: false,
  stays_behind: [],
  ...fields,
})
const port = (to_host_port: number) => ({ protocol: 'tcp', container_port: 80, from_host_port: 20080, to_host_port })
const change = (to: string) => [{ from: '192.0.2.1', to }]

describe('the plan of a move', () => {
  const nameOf = (id: string): string => `host-${id}`

  it('names the guest and both hosts', () =>
    expect(moveSentences(plan(), nameOf)).to.deep.equal(['Guest web1 moves from host host-a to host host-b.']))

  for (const [name, fields, sentence] of [
    ['that the guest is shut down', { shuts_down: true }, 'It is shut down while its whole disk is copied.'],
    ['that the guest keeps running', { live: true }, 'It keeps running, and is paused only briefly.'],
    [
      'a new address',
      { public_ipv4s: change('192.0.2.9') },
      'Its public IPv4 address changes from 192.0.2.1 to 192.0.2.9.',
    ],
    ['a lost address', { ipv6_addresses: change('') }, 'It loses the IPv6 address 192.0.2.1.'],
    ['an address that stays the same', { public_ipv4s: change('192.0.2.1') }, undefined],
    [
      'a new host port',
      { port_mappings: [port(20081)] },
      'Its tcp port 80 changes from host port 20080 to 20081, at the address of the new host.',
    ],
    [
      'a host port that stays the same',
      { port_mappings: [port(20080)] },
      'Its tcp port 80 keeps the host port 20080, at the address of the new host.',
    ],
    ['the data that is not moved', { stays_behind: ['usage_history', 'tasks'] }, 'Not moved: usage history, tasks.'],
  ] as const)
    it(`${sentence === undefined ? 'does not mention' : 'mentions'} ${name}`, () =>
      expect(moveSentences(plan(fields), nameOf)[1]).to.equal(sentence))
})
