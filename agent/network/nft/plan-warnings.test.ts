import { expect } from 'chai'
import { describeDropping, describeLegacy, dropsGuests, parseForwardChains } from './plan-warnings.js'

const chains = `table ip filter {
	chain DOCKER {
	}
	chain FORWARD {
		type filter hook forward priority 0; policy drop;
	}
	chain INPUT {
		type filter hook input priority 0; policy drop;
	}
}
table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority 10; policy accept;
	}
}
table inet berth {
	chain forward {
		type filter hook forward priority 0; policy accept;
	}
}
table inet berth_guard {
	chain forward {
		type filter hook forward priority 5; policy accept;
	}
}
table bridge other {
	chain forward {
		type filter hook forward priority 0; policy drop;
	}
}
`

const both = ['iifname "berth0" accept', 'oifname "berth0" counter packets 3 bytes 9 accept']
const reject = 'reject with icmpx admin-prohibited'

/** Output of nft 1.0.6 for the rules of firewalld 1.3, shortened. */
const firewalld = [
  'ct state { 0x2, 0x4 } accept',
  'ct status 0x20 accept',
  'iifname "lo" accept',
  'ct state { 0x1 } drop',
  'ip6 daddr { ::/96, ::ffff:0.0.0.0/96, 2002::/24,\n\t\t\t     2002:a00::/24 } reject with icmpv6 addr-unreachable',
  'jump X',
  reject,
]

describe('warnings about other programs', () => {
  it('find the chains of other programs at the forward hook', () => {
    expect(parseForwardChains(chains, ['berth', 'berth_guard'])).to.deep.equal([
      { family: 'ip', table: 'filter', chain: 'FORWARD' },
      { family: 'inet', table: 'firewalld', chain: 'filter_FORWARD' },
    ])
    expect(parseForwardChains('', ['berth'])).to.deep.equal([])
  })

  for (const [name, policy, rules, more, expected] of [
    ['a policy that accepts does not', 'accept', [], [], false],
    ['a policy that drops does', 'drop', [], [], true],
    ['one that accepts only other interfaces does', 'drop', ['iifname "docker0" accept'], [], true],
    ['one that accepts only one direction does', 'drop', ['iifname "berth0" accept'], [], true],
    ['one that accepts both directions does not', 'drop', both, [], false],
    ['one that jumps to a chain which accepts both directions does not', 'drop', ['counter packets 0 bytes 0 jump X'], both, false],
    ['one that accepts only in an unused chain does', 'drop', [], both, true],
    ['one that accepts only some packets of the bridge does', 'drop', ['iifname "berth0" tcp dport 22 accept', both[1]!], [], true],
    ['one that accepts another bridge does', 'drop', ['iifname "berth01" accept', both[1]!], [], true],
    ['one that accepts by a prefix and by a list of interfaces does not', 'drop', ['iifname "ber*" accept', 'oifname { "a", "berth0" } accept'], [], false],
    ['one that accepts everything does not', 'drop', ['counter packets 0 bytes 0 accept'], [], false],
    ['one that accepts after a drop does', 'accept', ['drop', ...both], [], true],
    ['one that accepts before a drop does not', 'accept', [...both, 'drop'], [], false],
    ['firewalld does', 'accept', firewalld, [], true],
    ['firewalld does not if it accepts guests', 'accept', firewalld, both, false],
    ['one that logs and rejects does', 'accept', ['log prefix "x drop: " level 4 flags tcp options reject'], [], true],
    ['one that rejects by an iptables target does', 'accept', ['counter packets 0 bytes 0 xt target "REJECT"'], [], true],
    ['one that rejects in a rule with a comment does', 'accept', [`${reject} comment "the rest"`], [], true],
    ['one that jumps to a chain which rejects does', 'accept', ['jump X'], [reject], true],
    ['one that goes to a chain which rejects does', 'accept', ['iifname != "eth0" goto X'], [reject], true],
    ['one that goes to a chain which accepts guests does not', 'accept', ['goto X', 'drop'], ['iifname "eth0" drop'], false],
    ['one that jumps to a chain which returns before its drop does not', 'accept', ['jump X'], ['return', 'drop'], false],
    [
      'one that drops packets of one foreign interface does not',
      'accept',
      ['iifname "virbr0" drop', 'oifname "virbr0" reject'],
      [],
      false,
    ],
    [
    'one that drops packets between foreign interfaces does not',
    'accept',
    ['iifname != "eth0" oifname "eth1" drop'],
    [],
    false,
    ],
    [
    'one that drops packets from guests to most interfaces does',
    'accept',
    ['iifname "berth0" oifname != "eth0" drop'],
    [],
    true,
    ],
    [
      'one that drops only some packets does not',
      'accept',
      ['ct state 0x1 drop', 'tcp dport 25 reject', 'limit rate 1/second drop'],
      [],
      false,
    ],
  ] as [string, string, string[], string[], boolean][])
    it(`recognize chains that drop guests' packets: ${name}`, () => {
      const lines = (all: readonly string[]): string => all.map((line) => `\t\t${line}\n`).join('')
      const head = `type filter hook forward priority 0; policy ${policy};`
      const text = `table ip t {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n\n\tchain F {\n${lines([head, ...rules])}\t}\n\n\tchain X {\n${lines(more)}\t}\n}\n`
      expect(dropsGuests(text, 'F', 'berth0')).to.equal(expected)
    })

  it('name the chain and recommend a fix', () => {
    const text = describeDropping({ family: 'inet', table: 'firewalld', chain: 'filter_FORWARD' }, 'berth0')
    expect(text).to.match(/inet firewalld, chain filter_FORWARD.*accept interface berth0.*DOCKER-USER.*firewalld/)
  })

  it('name legacy iptables tables, which nft does not list', () => {
    expect(describeLegacy('iptables', '', 'berth0')).to.deep.equal([])
    expect(describeLegacy('ip6tables', 'filter\nnat\n', 'berth0')).to.have.lengthOf(1)
    expect(describeLegacy('ip6tables', 'filter\nnat\n', 'berth0')[0]).to.match(
      /^ip6tables-legacy has tables \(filter, nat\).*ip6tables-legacy -S FORWARD.*berth0/,
    )
  })
})
