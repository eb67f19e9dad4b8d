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

describe('the check of firewall rules of other programs', () => {
  it('finds the chains of other programs at the forward hook', () => {
    expect(parseForwardChains(chains, ['berth', 'berth_guard'])).to.deep.equal([
      { family: 'ip', table: 'filter', chain: 'FORWARD' },
      { family: 'inet', table: 'firewalld', chain: 'filter_FORWARD' },
    ])
    expect(parseForwardChains('', ['berth'])).to.deep.equal([])
  })

  for (const [name, policy, rules, more, expected] of [
    ['if its policy accepts', 'accept', [], [], false],
    ['if its policy drops', 'drop', [], [], true],
    ['if its policy drops, and its rules accept only other interfaces', 'drop', ['iifname "docker0" accept'], [], true],
    ['if its policy drops, and its rules accept only one direction', 'drop', ['iifname "berth0" accept'], [], true],
    ['if its policy drops, but its rules accept both directions', 'drop', both, [], false],
    [
      'if its policy drops, but it jumps to a chain that accepts both directions',
      'drop',
      ['counter packets 0 bytes 0 jump X'],
      both,
      false,
    ],
    ['if its policy drops, and packets are accepted only by a chain to which it does not jump', 'drop', [], both, true],
    [
      'if its policy drops, and its rules accept only some packets',
      'drop',
      ['iifname "berth0" tcp dport 22 accept', both[1]!],
      [],
      true,
    ],
    [
      'if its policy drops, and its rules accept only another bridge',
      'drop',
      ['iifname "berth01" accept', both[1]!],
      [],
      true,
    ],
    [
      'if its policy drops, but rules with a name prefix and with a list of names accept the bridge',
      'drop',
      ['iifname "ber*" accept', 'oifname { "a", "berth0" } accept'],
      [],
      false,
    ],
    ['if its policy drops, but a rule accepts everything', 'drop', ['counter packets 0 bytes 0 accept'], [], false],
    ['if it accepts packets only after a rule that drops all', 'accept', ['drop', ...both], [], true],
    ['if it accepts packets before a rule that drops all', 'accept', [...both, 'drop'], [], false],
    ['if it is a chain of firewalld', 'accept', firewalld, [], true],
    ['if it is a chain of firewalld and a zone accepts guests', 'accept', firewalld, both, false],
    [
      'if it logs and rejects all packets',
      'accept',
      ['log prefix "x drop: " level 4 flags tcp options reject'],
      [],
      true,
    ],
    [
      'if it rejects all packets with a rule of iptables',
      'accept',
      ['counter packets 0 bytes 0 xt target "REJECT"'],
      [],
      true,
    ],
    ['if it rejects all packets with a rule that has a comment', 'accept', [`${reject} comment "the rest"`], [], true],
    ['if it jumps to a chain that rejects', 'accept', ['jump X'], [reject], true],
    ['if it ends with “goto” to a chain that rejects', 'accept', ['iifname != "eth0" goto X'], [reject], true],
    [
      'if it ends with “goto” to a chain that does not drop guests’ packets',
      'accept',
      ['goto X', 'drop'],
      ['iifname "eth0" drop'],
      false,
    ],
    ['if it jumps to a chain that returns before its drop rule', 'accept', ['jump X'], ['return', 'drop'], false],
    [
      'if it drops only packets of one other interface',
      'accept',
      ['iifname "virbr0" drop', 'oifname "virbr0" reject'],
      [],
      false,
    ],
    [
      'if it drops only packets between other interfaces',
      'accept',
      ['iifname != "eth0" oifname "eth1" drop'],
      [],
      false,
    ],
    ['if it drops packets from guests', 'accept', ['iifname "berth0" oifname != "eth0" drop'], [], true],
    [
      'if it drops only some packets of each guest',
      'accept',
      ['ct state 0x1 drop', 'tcp dport 25 reject', 'limit rate 1/second drop'],
      [],
      false,
    ],
  ] as [string, string, string[], string[], boolean][])
    it(`finds that a chain ${expected ? 'drops' : 'does not drop'} the packets of guests ${name}`, () => {
      const lines = (all: readonly string[]): string => all.map((line) => `\t\t${line}\n`).join('')
      const head = `type filter hook forward priority 0; policy ${policy};`
      const text = `table ip t {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n\n\tchain F {\n${lines([head, ...rules])}\t}\n\n\tchain X {\n${lines(more)}\t}\n}\n`
      expect(dropsGuests(text, 'F', 'berth0')).to.equal(expected)
    })

  it('creates a warning that names the chain and recommends a fix', () => {
    const text = describeDropping({ family: 'inet', table: 'firewalld', chain: 'filter_FORWARD' }, 'berth0')
    expect(text).to.match(
      /inet firewalld, chain filter_FORWARD.*accept packets from and to the interface berth0.*DOCKER-USER.*firewalld/,
    )
  })

  it('creates a warning about legacy iptables tables, because nft does not list them', () => {
    expect(describeLegacy('iptables', '', 'berth0')).to.deep.equal([])
    expect(describeLegacy('ip6tables', 'filter\nnat\n', 'berth0')).to.have.lengthOf(1)
    expect(describeLegacy('ip6tables', 'filter\nnat\n', 'berth0')[0]).to.match(
      /^ip6tables-legacy has tables \(filter, nat\).*ip6tables-legacy -S FORWARD.*berth0/,
    )
  })
})
