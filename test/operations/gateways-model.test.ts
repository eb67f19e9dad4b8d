import { expect } from 'chai'
import { explore } from '../support/model/explore.js'
import { gatewaysModel, modelFaults } from '../support/model/gateways-model.js'

/** Limits of each search. The number of states grows quickly, so each search allows many steps of only some kinds. */
const explorations = [
  { epochs: 2, writes: 2, failovers: 1, calls: 2 },
  { epochs: 3, writes: 4, failovers: 0, calls: 2 },
  { epochs: 2, writes: 2, failovers: 2, calls: 1 },
]
const maxStates = 500_000

describe('the model of two gateways with leases', () => {
  it('has no state in which a gateway acts on a lost lease or in which a confirmed lease disappears', () => {
    for (const bounds of explorations) {
      const { violation, states } = explore(gatewaysModel('none', bounds), maxStates)
      expect(violation).to.equal(undefined)
      expect(states).to.be.greaterThan(50_000)
    }
  })

  for (const fault of modelFaults.filter((one) => one !== 'none'))
    it(`finds a violation if a fault is built in: ${fault}`, () => {
      const found = explorations.some((bounds) => explore(gatewaysModel(fault, bounds), maxStates).violation)
      expect(found).to.equal(true)
    })
})
