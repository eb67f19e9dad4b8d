import { expect } from 'chai'
import { letsThrough, parseDroppingChains } from './plan-warnings.js'

const chains = (policy: string): string => `table ip filter {
	chain DOCKER {
	}
	chain FORWARD {
		type filter hook forward priority 0; policy ${policy};
	}
	chain INPUT {
		type filter hook input priority 0; policy drop;
	}
}
table inet berth {
	chain forward {
		type filter hook forward priority 0; policy drop;
	}
}
table bridge other {
	chain forward {
		type filter hook forward priority 0; policy drop;
	}
}
`

describe('warnings of other programs', () => {
  it('find chains that drop what they forward, of routed packets, but ours', () => {
    expect(parseDroppingChains(chains('drop'), 'berth')).to.deep.equal([
      { family: 'ip', table: 'filter', chain: 'FORWARD' },
    ])
    expect(parseDroppingChains(chains('accept'), 'berth')).to.deep.equal([])
    expect(parseDroppingChains('', 'berth')).to.deep.equal([])
  })

  for (const [name, rules, expected] of [
    ['neither way', ['iifname "docker0" accept'], false],
    ['one way', ['iifname "berth0" accept'], false],
    ['both ways', ['iifname "berth0" accept', 'oifname "berth0" counter packets 3 bytes 9 accept'], true],
    ['only some of it', ['iifname "berth0" tcp dport 22 accept', 'oifname "berth0" accept'], false],
    ['another bridge', ['iifname "berth01" accept', 'oifname "berth01" accept'], false],
  ] as [string, string[], boolean][])
    it(`know a table that accepts guests: ${name}`, () => {
      const text = `table ip filter {\n\tchain X {\n${rules.map((rule) => `\t\t${rule}\n`).join('')}\t}\n}\n`
      expect(letsThrough(text, 'berth0')).to.equal(expected)
    })
})
