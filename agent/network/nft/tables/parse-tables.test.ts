import { expect } from 'chai'
import { parseTables } from './parse-tables.js'

const bridge = (elements: string): string => `table bridge berth {
	set guests {
		type ifname . ether_addr . ipv4_addr
${elements}	}

	set guest_devices {
		type ifname
		flags interval
		elements = { "bt0*",
			     "bt1*" }
	}

	chain from_guest {
		ether type vmap { 0x0800 : jump ipv4_from_guest, 0x0806 : jump arp_from_guest }
		drop
	}
}
`
const two = `		elements = { "bt1" . 02:be:0a:40:00:02 . 10.64.0.2,
			     "bt2" . 02:be:0a:40:00:03 . 10.64.0.3 }
`
const ip = `table ip berth {
	map ports {
		type inet_proto . inet_service : ipv4_addr . inet_service
		elements = { 6 . 20001 : 10.64.0.2 . 22,
			     17 . 20001 : 10.64.0.2 . 53 }
	}
}
`
const inet = (chains: string): string => `table inet berth {
	set sent {
		type ether_addr
		counter
		elements = { 02:be:0a:40:00:02 counter packets 3 bytes 252, 02:be:0a:40:00:03 counter packets 0 bytes 0 }
	}

	map firewall_in6 {
		type ipv6_addr : verdict
		elements = { 2001:db8::2 : jump in_bt1 }
	}

	chain forward {
		type filter hook forward priority 0; policy accept;
	}
${chains}}
`
const firewalls = `
	chain in_bt1 {
		ct protocol { 1, 58 } return
		drop
	}

	chain out_bt1 {
	}

	chain note_bt1_0123456789abcdef {
	}
`

describe('the parser of the output of nft list table', () => {
  it('returns the elements of all sets and maps', () => {
    expect(Object.fromEntries(parseTables(bridge(two) + ip + inet('')).elements)).to.deep.equal({
      'guests "bt1" . 02:be:0a:40:00:02 . 10.64.0.2': '',
      'guests "bt2" . 02:be:0a:40:00:03 . 10.64.0.3': '',
      'ports 6 . 20001': '10.64.0.2 . 22',
      'ports 17 . 20001': '10.64.0.2 . 53',
      'sent 02:be:0a:40:00:02': '',
      'sent 02:be:0a:40:00:03': '',
      'firewall_in6 2001:db8::2': 'jump in_bt1',
    })
  })

  it('returns the byte counters of the elements', () => {
    expect(Object.fromEntries(parseTables(inet('')).counted)).to.deep.equal({
      'sent 02:be:0a:40:00:02': 252,
      'sent 02:be:0a:40:00:03': 0,
    })
  })

  it("returns guests' chains", () => {
    expect(Object.fromEntries(parseTables(inet(firewalls)).chains)).to.deep.equal({
      in_bt1: '\t\tct protocol { 1, 58 } return\n\t\tdrop\n',
      out_bt1: '',
      note_bt1_0123456789abcdef: '',
    })
  })

  it('returns a structure that does not depend on the elements and chains of guests', () => {
    expect(parseTables(bridge(two)).structure).to.equal(parseTables(bridge('')).structure)
    expect(parseTables(inet(firewalls)).structure).to.equal(parseTables(inet('')).structure)
  })

  it('returns a structure that differs if rules, set types or chains of other programs differ', () => {
    const { structure } = parseTables(bridge(two))
    expect(structure).to.contain('"bt0*"').and.contain('jump ipv4_from_guest').and.contain('ifname . ether_addr')
    expect(parseTables(bridge(two).replace('drop', 'accept')).structure).to.not.equal(structure)
    expect(parseTables(bridge(two).replace('ether_addr . ', '')).structure).to.not.equal(structure)
    const foreign = '\n\tchain in_other {\n\t\taccept\n\t}\n'
    expect(parseTables(inet(foreign)).structure).to.contain('in_other')
  })

  it('returns no elements for missing tables', () => {
    const { elements, structure } = parseTables('')
    expect([elements.size, structure]).to.deep.equal([0, ''])
  })
})
