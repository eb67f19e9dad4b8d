import { expect } from 'chai'
import { freeName } from './join-token.js'

const usedNames = (names: readonly string[]): string =>
  names.length === 0 ? 'no name is in use' : `these names are in use: ${names.join(', ')}`

describe('the name of a new host', () => {
  for (const [machine, taken, name] of [
    ['node1', [], 'node1'],
    ['Node1.example.com', [], 'node1'],
    ['node1', ['Node1'], 'node1-2'],
    ['node1', ['node1', 'node1-2'], 'node1-3'],
    ['ünïcode', [], 'ncode'],
    ['…', [], 'host'],
    ['a'.repeat(60), [], 'a'.repeat(24)],
  ] as const)
    it(`is "${name}" if the host name of the machine ${machine === '…' ? 'contains no permitted character (only "…")' : `is "${machine}"`} and ${usedNames(taken)}`, () => {
      expect(
        freeName(
          taken.map((other) => ({ name: other })),
          machine,
        ),
      ).to.equal(name)
    })
})
