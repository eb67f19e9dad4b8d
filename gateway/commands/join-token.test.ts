import { expect } from 'chai'
import { freeName } from './join-token.js'

describe('name of the host that is created for this machine', () => {
  for (const [machine, taken, name] of [
    ['node1', [], 'node1'],
    ['Node1.example.com', [], 'node1'],
    ['node1', ['Node1'], 'node1-2'],
    ['node1', ['node1', 'node1-2'], 'node1-3'],
    ['ünïcode', [], 'ncode'],
    ['…', [], 'host'],
    ['a'.repeat(60), [], 'a'.repeat(24)],
  ] as const)
    it(`is ${name} for ${machine} next to ${taken.join(', ') || 'no other'}`, () => {
      expect(
        freeName(
          taken.map((other) => ({ name: other })),
          machine,
        ),
      ).to.equal(name)
    })
})
