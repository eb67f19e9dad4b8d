import { expect } from 'chai'
import type { Qdisc } from '../../host/net/tc.js'
import {
  ifbOf,
  ifbPattern,
  isShaped,
  parseShaping,
  placesOf,
  planLink,
  planShaping,
  type ObservedShaping,
} from './plan.js'

const nothing: ObservedShaping = { downKbit: undefined, upKbit: undefined, redirect: 'none', ifb: 'absent' }
const shaped: ObservedShaping = { downKbit: 104_558, upKbit: 10_456, redirect: 'ifb', ifb: 'up' }
const want = { device: 'bt7', downMbps: 100, upMbps: 10 }

const rate = (kbit: number, burst: number): string =>
  `htb rate ${kbit}kbit ceil ${kbit}kbit burst ${burst}b cburst ${burst}b quantum 60000`
const downClass = `class replace dev bt7 parent d0: classid d0:1 ${rate(104_558, 130_698)}`
const downQueue = 'qdisc replace dev bt7 parent d0:1 handle d2: bfifo limit 1306975b'
const upClass = `class replace dev bt7u parent d1: classid d1:1 ${rate(10_456, 16_000)}`
const upQueue = 'qdisc replace dev bt7u parent d1:1 handle d2: bfifo limit 131072b'
const buildDown = [
  'qdisc replace dev bt7 root pfifo limit 1000',
  'qdisc replace dev bt7 root handle d0: htb default 1',
  downClass,
  downQueue,
]
const buildUp = [
  'qdisc replace dev bt7u root pfifo limit 1000',
  'qdisc replace dev bt7u root handle d1: htb default 1',
  upClass,
  upQueue,
]
const hook = 'qdisc replace dev bt7 handle ffff: ingress'
const redirect =
  'filter add dev bt7 parent ffff: protocol all prio 1 u32 match u32 0 0 action mirred egress redirect dev bt7u'
const unhook = 'qdisc delete dev bt7 ingress'
const addIfb = 'link add name bt7u type ifb'
const ifbUp = 'link set dev bt7u up'

describe('the plan of tc and ip commands for a guest’s rates', () => {
  const plan = (links: string[], tc: string[], unlinks: string[] = []): object => ({ links, tc, unlinks })
  for (const [name, rates, have, expected] of [
    ['is empty if no rates are desired and none exist', { downMbps: 0, upMbps: 0 }, nothing, plan([], [])],
    ['is empty if the rates are as desired', {}, shaped, plan([], [])],
    [
      'creates the rates of both directions',
      {},
      nothing,
      plan([addIfb, ifbUp], [...buildDown, ...buildUp, hook, redirect]),
    ],
    ['creates only a download rate', { upMbps: 0 }, nothing, plan([], buildDown)],
    ['creates only an upload rate', { downMbps: 0 }, nothing, plan([addIfb, ifbUp], [...buildUp, hook, redirect])],
    [
      'changes only the class and its queue if only the rate differs',
      {},
      { ...shaped, downKbit: 5 },
      plan([], [downQueue, downClass]),
    ],
    ['replaces a class whose settings differ', {}, { ...shaped, downKbit: -1 }, plan([], buildDown)],
    ['creates a deleted root qdisc again', {}, { ...shaped, downKbit: undefined }, plan([], buildDown)],
    ['creates a deleted redirection again', {}, { ...shaped, redirect: 'none' }, plan([], [hook, redirect])],
    [
      'replaces a redirection that leads to another device',
      {},
      { ...shaped, redirect: 'elsewhere' },
      plan([], [hook, 'filter delete dev bt7 parent ffff:', redirect]),
    ],
    [
      'creates a deleted IFB again and replaces the filter, which has lost its target',
      {},
      { ...shaped, upKbit: undefined, redirect: 'elsewhere', ifb: 'absent' },
      plan([addIfb, ifbUp], [...buildUp, hook, 'filter delete dev bt7 parent ffff:', redirect]),
    ],
    ['brings an IFB up if it is down', {}, { ...shaped, ifb: 'down' }, plan([ifbUp], [])],
    [
      'removes the download rate if the download is unlimited',
      { downMbps: 0 },
      shaped,
      plan([], ['qdisc delete dev bt7 root']),
    ],
    [
      'removes the redirection before the IFB if the upload is unlimited',
      { upMbps: 0 },
      shaped,
      plan([], [unhook], ['link delete dev bt7u']),
    ],
    [
      'removes an IFB that no rate needs any more',
      { upMbps: 0 },
      { ...shaped, redirect: 'none' },
      plan([], [], ['link delete dev bt7u']),
    ],
  ] as const)
    it(name, () => expect(planShaping({ ...want, ...rates }, have)).to.deep.equal(expected))

  // Rates from 1 Gbit/s on must be whole Mbit/s, because tc prints 1045581kbit as 1045Mbit.
  for (const [mbps, kbit] of [
    [1, 1046],
    [956, 999_575],
    [1000, 1_046_000],
    [400_000, 418_232_000],
  ] as const)
    it(`translates ${mbps} Mbit/s to a rate that tc prints without rounding`, () => {
      const { tc } = planShaping({ device: 'bt7', downMbps: mbps, upMbps: 0 }, nothing)
      expect(tc[2]).to.contain(`rate ${kbit}kbit ceil ${kbit}kbit`)
    })
})

describe('the parser of a guest’s rates in the output of tc', () => {
  const filters = (device: string): string =>
    '[{"parent":"ffff:","protocol":"all","pref":1,"kind":"u32","chain":0},{"parent":"ffff:","protocol":"all",' +
    '"pref":1,"kind":"u32","chain":0,"options":{"fh":"800::800","order":2048,"key_ht":"800","bkt":"0",' +
    '"actions":[{"order":1,"kind":"mirred","mirred_action":"redirect","direction":"egress","to_dev":"' +
    `${device}","control_action":{"type":"stolen"},"index":1,"ref":1,"bind":1}]}}]`
  const down = 'class htb d0:1 root leaf d2: prio 0 rate 104558Kbit ceil 104558Kbit burst 130695b cburst 130695b '
  const up = 'class htb d1:1 root leaf d2: prio 0 rate 1046Mbit ceil 1046Mbit burst 1307500b cburst 1307500b '
  const none = { downKbit: undefined, upKbit: undefined, redirect: 'none' }

  for (const [name, lines, expected] of [
    ['finds no rates and no redirection in an empty list', ['[]'], none],
    ['finds no rates and no redirection in empty output', [''], none],
    [
      'finds the rates of both directions and the redirection',
      [down, up, filters('bt7u')],
      { downKbit: 104_558, upKbit: 1_046_000, redirect: 'ifb' },
    ],
    [
      'recognizes a redirection to a device other than the IFB of the guest',
      [filters('bt8u')],
      { ...none, redirect: 'elsewhere' },
    ],
    [
      'recognizes a filter that has no action and thus redirects nothing',
      ['[{"parent":"ffff:","kind":"u32"}]'],
      { ...none, redirect: 'elsewhere' },
    ],
    ['recognizes a class without the agent’s queue', [down.replace(' leaf d2:', '')], { ...none, downKbit: -1 }],
    [
      'recognizes a class whose ceiling differs from its rate',
      [down.replace('ceil 104558', 'ceil 204558')],
      { ...none, downKbit: -1 },
    ],
    ['ignores classes of other programs', [down.replace('d0:1', '1:1')], none],
  ] as const)
    it(name, () => expect(parseShaping('bt7', lines.join('\n'))).to.deep.equal(expected))
})

describe('the check whether a guest has exactly the qdiscs for its rates', () => {
  const qdisc = (dev: string, handle: string, parent?: string): Qdisc => ({
    kind: '',
    dev,
    handle,
    ...(parent === undefined ? {} : { parent }),
  })
  const down = [qdisc('bt7', 'd0:'), qdisc('bt7', 'd2:', 'd0:1')]
  const up = [qdisc('bt7', 'ffff:', 'ffff:fff1'), qdisc('bt7u', 'd1:'), qdisc('bt7u', 'd2:', 'd1:1')]
  const others = [qdisc('lo', '0:'), qdisc('bt8', 'd0:'), qdisc('bt8', 'd2:', 'd0:1'), qdisc('bt7', '0:')]
  const rates = (downMbps: number, upMbps: number): typeof want => ({ device: 'bt7', downMbps, upMbps })

  for (const [name, guest, qdiscs, expected] of [
    ['is true if both directions have their qdiscs', rates(1, 1), [...down, ...up], true],
    ['is true for a guest without limits and without qdiscs', rates(0, 0), [], true],
    ['is true if only download is limited and has its qdiscs', rates(1, 0), down, true],
    ['is false if the qdiscs are missing', rates(1, 0), [], false],
    ['is false if the class has no queue', rates(1, 0), down.slice(0, 1), false],
    ['is false if the ingress qdisc is missing', rates(0, 1), up.slice(1), false],
    ['is false if the root of the IFB is missing', rates(0, 1), [...up.slice(0, 1), ...up.slice(2)], false],
    ['is false if a guest without limits has qdiscs', rates(0, 0), down, false],
    ['is false if the upload is unlimited but has qdiscs', rates(1, 0), [...down, ...up], false],
  ] as const)
    it(name, () => expect(isShaped(guest, placesOf([...others, ...qdiscs]))).to.equal(expected))
})

describe('the name pattern of IFB devices (for traffic from guests)', () => {
  it('matches only the IFBs of this agent', () => {
    expect(ifbOf('bt7')).to.match(ifbPattern('bt'))
    for (const name of ['bt7', 'abt7u', 'bt7ux', 'btu', 'bt7v', 'b7u']) expect(name).to.not.match(ifbPattern('bt'))
    expect(ifbOf('btxy9999999999')).to.have.length(15)
  })
})

describe('the planned link state of a guest’s network interface', () => {
  for (const [name, cut, isUp, commands] of [
    ['leaves the link of a connected guest up', {}, true, []],
    ['sets the link down to disconnect a guest', { cut: true }, true, ['link set dev bt7 down']],
    ['leaves the link of a disconnected guest down', { cut: true }, false, []],
    ['sets the link up to connect a guest again', { cut: false }, false, ['link set dev bt7 up']],
  ] as const)
    it(name, () => expect(planLink({ ...want, ...cut }, isUp)).to.deep.equal(commands))
})
