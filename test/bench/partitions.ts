import { randomInt } from 'node:crypto'
import { loadavg } from 'node:os'
import { PartitionTrial } from '../support/memory/partition-trial.js'
import { planAbsences } from '../support/memory/plan-absences.js'

export interface PartitionOptions {
  readonly count: number
  readonly seed?: number
}

/** Lets hosts of a fleet fail and return, and prints the result. @throws {Error} if a guest ran twice */
export async function benchPartitions({ count, seed = randomInt(1_000_000) }: PartitionOptions): Promise<void> {
  console.log(`\n### Hosts that fail and return: ${count}, seed ${seed}, load average ${loadavg()[0]!.toFixed(1)}\n`)
  const begun = performance.now()
  const trial = await PartitionTrial.start()
  try {
    for (const [at, absence] of planAbsences({ count, seed }).entries()) {
      await trial.run(absence)
      if (at % 20 === 19) console.log(`${at + 1} returns, ${trial.restored} guests restored`)
    }
  } finally {
    await trial.close()
  }
  const seconds = Math.round((performance.now() - begun) / 1000)
  console.log(
    `${trial.restored} guests restored in ${seconds} s, ${trial.violations.length} ran twice or had wrong content`,
  )
  for (const text of trial.violations.slice(0, 20)) console.log(text)
  if (trial.violations.length > 0) throw new Error('guests ran twice, see above')
}
