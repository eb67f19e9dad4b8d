import { expect } from 'chai'
import { planNatTables } from './plan-nat-tables.js'

describe('ports by which guests leave', () => {
  for (const [name, start, end, expected] of [
    ['below those they are given', 20_000, 59_999, ':1024-19999'],
    ['above', 10_000, 10_999, ':11000-65535'],
    ['all above', 1024, 40_000, ':40001-65535'],
    ['all below', 40_000, 65_535, ':1024-39999'],
    ['the fewest', 5120, 65_535, ':1024-5119'],
    ['too few to be set apart', 5119, 65_535, ':1024-65535 fully-random'],
    ['none', 1024, 65_535, ':1024-65535 fully-random'],
  ] as const)
    it(name, () => {
      const tables = { table: 't', bridge: 'b', subnet: '10.65.0.0/16', subnet6: 'fd65::/64' }
      const commands = planNatTables({ ...tables, natPorts: { start, end } })
      const leaving = commands.flatMap((line) => / masquerade to (.*)$/.exec(line)?.[1] ?? [])
      expect(leaving).to.deep.equal([expected, expected])
    })
})
