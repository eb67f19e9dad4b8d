import { expect } from 'chai'
import { parseElements, parseTable } from './parse-tables.js'

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

describe('tables as nft prints them', () => {
  it('give the elements', () => {
    expect(parseElements(parseTable(bridge(two)), parseTable(ip))).to.deep.equal({
      guests: ['"bt1" . 02:be:0a:40:00:02 . 10.64.0.2', '"bt2" . 02:be:0a:40:00:03 . 10.64.0.3'],
      ports: new Map([
        ['6 . 20001', '10.64.0.2 . 22'],
        ['17 . 20001', '10.64.0.2 . 53'],
      ]),
    })
  })

  it('give a structure that does not depend on them', () => {
    expect(parseTable(bridge(two)).structure).to.equal(parseTable(bridge('')).structure)
  })

  it('give a structure that holds all the rest', () => {
    const { structure } = parseTable(bridge(two))
    expect(structure)
      .to.contain('"bt0*"')
      .and.contain('jump ipv4_from_guest')
      .and.contain('ifname . ether_addr')
    expect(parseTable(bridge(two).replace('drop', 'accept')).structure).to.not.equal(structure)
    expect(parseTable(bridge(two).replace('ether_addr . ', '')).structure).to.not.equal(structure)
  })

  it('may be missing', () => {
    expect(parseElements(parseTable(''), parseTable(''))).to.deep.equal({ guests: [], ports: new Map() })
  })
})
