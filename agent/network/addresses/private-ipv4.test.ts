import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { openDatabase, type Database } from '../../state/database.js'
import { allocateIpv4, deviceName } from './private-ipv4.js'
import { formatIpv4, macOf, parseIpv4, parseSubnet } from '../subnet.js'

describe('the network of a new guest', () => {
  let db: Database
  beforeEach(() => {
    db = openDatabase(':memory:')
  })
  afterEach(() => db.close())

  function addGuest(index: number, ipv4: string): void {
    db.prepare(
      `INSERT INTO guests (uuid, id, name, spec, status, wanted, idmap_slot, ipv4, mac, created_at_ms, revision)
       VALUES (?, ?, ?, '{}', 'running', 'running', ?, ?, ?, 0, 0)`,
    ).run(`u${index}`, index, `g${index}`, index, ipv4, macOf(ipv4))
  }

  const codeOf = (work: () => unknown): string => {
    try {
      work()
    } catch (error) {
      return error instanceof BerthError ? error.code : String(error)
    }
    return 'no error'
  }

  describe('the private IPv4 address', () => {
    it('is different for each guest until the subnet is used up', () => {
      const granted = new Set<string>()
      for (let i = 1; i <= 13; i++) {
        const ipv4 = allocateIpv4(db, '10.9.8.16/28')
        granted.add(ipv4)
        addGuest(i, ipv4)
      }
      const expected = Array.from({ length: 13 }, (_, i) => `10.9.8.${18 + i}`)
      expect([...granted]).to.have.members(expected)
      expect(codeOf(() => allocateIpv4(db, '10.9.8.16/28'))).to.equal('resource_exhausted')
    })

    it('is the only free address if 65,532 of 65,533 addresses are in use', () => {
      const { first, last } = parseSubnet('10.64.0.0/16')
      db.transaction(() => {
        for (let at = first; at <= last; at++) if (at !== first + 777) addGuest(at - first + 1, formatIpv4(at))
      })()
      expect(parseIpv4(allocateIpv4(db, '10.64.0.0/16'))).to.equal(first + 777)
    })
  })

  it('has an interface name of a length that the kernel accepts', () => {
    expect(deviceName('bt', 42)).to.equal('bt42')
    expect(deviceName('abcd', 12345678901)).to.have.lengthOf(15)
    for (const bad of [0, -1, 1.5, NaN, 123456789012345])
      expect(codeOf(() => deviceName('bt', bad))).to.equal('internal_error')
  })
})
