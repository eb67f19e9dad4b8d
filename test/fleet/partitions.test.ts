import { expect } from 'chai'
import { PartitionTrial } from '../support/memory/partition-trial.js'

/* The long form with random failures is `scripts/bench --only partitions`. */

describe('hosts that fail, whose guests are restored elsewhere, and that return', () => {
  let trial: PartitionTrial
  before(async () => (trial = await PartitionTrial.start()))
  after(() => trial.close())

  for (const [title, absence] of [
    ['after a boot without a gateway', { afterMs: 1000, isolatedBoots: 1, isolatedMs: 3000 }],
    ['during the restore', { afterMs: 100, isolatedBoots: 0, isolatedMs: 0 }],
    ['after two boots without a gateway, while a target restarts', { afterMs: 50, isolatedBoots: 2, isolatedMs: 400 }],
  ] as const)
    it(`start no guest that runs elsewhere: return ${title}`, async () => {
      await trial.run({ host: 0, targetRestarts: absence.isolatedBoots === 2, ...absence })
      expect(trial.violations).to.deep.equal([])
    })
  it('have had guests that were restored', () => expect(trial.restored).to.be.above(0))
})
