import { expect } from 'chai'
import { nextStep, stepLines, verdict, type Diagnosis } from './plan-why.js'

const diagnosis = (fields: Partial<Diagnosis> = {}): Diagnosis => ({
  reachable: false,
  steps: [
    { name: 'running', state: 'ok', message: '' },
    { name: 'listening', state: 'failed', message: 'no program in the container listens on the port' },
    { name: 'firewall', state: 'skipped', message: 'an earlier step failed' },
    { name: 'a new step', state: 'skipped', message: '' },
  ],
  container_port: 80,
  source: '192.0.2.7',
  address: '',
  port: 0,
  listening_ports: [],
  repair: null,
  ...fields,
})
const repair = (action: string, body: Readonly<Record<string, unknown>> | null = {}, etag = '') =>
  diagnosis({ repair: { action, method: 'PUT', path: '/containers/7/firewall', body, if_match: etag } })

describe('berth why', () => {
  it('shows a line for each step, and the reason for a failure', () =>
    expect(stepLines(diagnosis())).to.deep.equal([
      'yes  The guest is running',
      'NO   A program in the guest listens on the port',
      '     no program in the guest listens on the port',
      '?    The firewall of the guest accepts connections from 192.0.2.7',
      '?    a new step',
    ]))

  for (const [name, fields, text] of [
    [
      'the reason why the port cannot be reached',
      {},
      'port 80 of web1 cannot be reached: no program in the guest listens on the port',
    ],
    [
      'the address and port to connect to',
      { reachable: true, address: '2001:db8::1', port: 20080 },
      'port 80 of web1 can be reached at [2001:db8::1], port 20080',
    ],
    [
      'the port to connect to if the host has several addresses',
      { reachable: true, port: 20080 },
      'port 80 of web1 can be reached at any address of the host, port 20080',
    ],
    [
      'a success message without an address if the address is unknown',
      { reachable: true },
      'port 80 of web1 can be reached',
    ],
  ] as const)
    it(`ends with ${name}`, () => expect(verdict(diagnosis(fields), 'web1')).to.equal(text))

  for (const [name, given, text] of [
    ['the reason is unknown', diagnosis(), undefined],
    ['the guest listens on other ports', diagnosis({ listening_ports: [8080] }), 'the guest listens on: 8080'],
    ['the guest is stopped', repair('start'), 'try: berth guest start web1'],
    ['the port is not mapped', repair('add_port_mapping', null), 'try: berth port add web1 --guest-port 80'],
    [
      'the firewall drops the connection',
      repair('open_firewall', { rules: ["a'b"] }),
      `try: berth api PUT /containers/7/firewall --data '{"rules":["a'\\''b"]}'`,
    ],
    [
      'the repair must not overwrite a newer change',
      repair('open_firewall', {}, '"12.ab"'),
      `try: berth api PUT /containers/7/firewall --if-match '"12.ab"' --data '{}'`,
    ],
  ] as const)
    it(`suggests ${text === undefined ? 'nothing' : `“${text}”`} if ${name}`, () =>
      expect(nextStep(given, 'web1')).to.equal(text))
})
