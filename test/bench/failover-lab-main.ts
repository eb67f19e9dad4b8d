import { Command } from 'commander'
import { randomInt } from 'node:crypto'
import { loadavg } from 'node:os'
import { FailoverLab } from '../support/failover/failover-lab.js'
import { FailoverTrial, type TrialResult } from '../support/failover/failover-trial.js'
import { faultKinds, planFaults } from '../support/failover/plan-faults.js'

/*
 * The long form of the failover laboratory. It needs a network namespace and a mount namespace of its own:
 * unshare --net --mount --propagation private node --import tsx test/bench/failover-lab-main.ts --minutes 10
 */

const options = new Command('failover-lab')
  .option('--minutes <n>', 'approximate duration', Number, 10)
  .option('--seed <n>', 'seed of the faults; default: a random one', Number, randomInt(1_000_000))
  .option('--creations <n>', 'creations at the same time', Number, 100)
  .option('--pause <ms>', 'mean pause of each writer of guests', Number, 2000)
  .option('--agents <n>', 'agents in memory', Number, 20)
  .option('--real-hosts <n>', 'hosts with a real agent and LXC', Number, 2)
  .option('--keep', 'keep logs and states')
  .parse()
  .opts<{
    minutes: number
    seed: number
    creations: number
    pause: number
    agents: number
    realHosts: number
    keep?: boolean
  }>()

const { seed, minutes, agents, realHosts, creations, pause: pauseMs } = options
console.log(`seed ${seed}, load average ${load()}`)
const starting = FailoverLab.start({ agents, realHosts }) // stops what it has started if it fails
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void stopEarly())
const lab = await starting
console.log(`started ${lab.hosts.length} hosts`)
const result = await runTrialAndStop()
print(result)
process.exit(result.findings.count > 0 ? 1 : 0)

/** Stops the laboratory. Ignores errors of the trial, which would end the process before everything is stopped. */
async function stopEarly(): Promise<void> {
  process.on('unhandledRejection', () => undefined)
  await starting.then((started) => started.stop()).finally(() => process.exit(1))
}

async function runTrialAndStop(): Promise<TrialResult> {
  try {
    return await runTrial()
  } finally {
    await lab.stop({ keep: options.keep ?? false })
  }
}

function runTrial(): Promise<TrialResult> {
  const faults = planFaults({ minutes, seed })
  const times = { cutMs: 10_000, stopMs: 30_000, writesPerSecond: 50 }
  const log = (text: string): void => console.log(text)
  return new FailoverTrial(lab, { ...times, seed, faults, creations, pauseMs, log }).run()
}

function load(): string {
  return loadavg()
    .map((value) => value.toFixed(1))
    .join(' ')
}

function print(result: TrialResult): void {
  const { writes, probe, events, fenced, findings } = result
  console.log(`\n### Failover laboratory: ${result.seconds.toFixed(0)} s, load average ${load()}\n`)
  printFaults(result)
  const rows: [string, string | number][] = [
    ['acknowledged writes', writes.acknowledged],
    ['of these, creations of guests', result.created],
    ['acknowledged writes that were lost', findings.lost.length],
    ['writes and steps that were done twice', findings.twice.length],
    ['reads with an old state of a key after the acknowledgement', findings.stale.length],
    ['reads with an old state of a guest after the acknowledgement', probe.lateGuests.length],
    ['slowest write with its repeats', `${(writes.slowestMs / 1000).toFixed(1)} s`],
    ['first read at another gateway that shows an acknowledged write, calm', summary(probe.calmMs)],
    ['first read at another gateway that shows an acknowledged write, during faults', summary(probe.faultyMs)],
    ['webhook events', events.events],
    ['webhook messages repeated with the same id', events.repeated],
    ['webhook events with several ids', events.duplicated],
    ['creations without an event about their end', events.missing],
    ['notices of omitted events', events.dropped],
    ['calls with an epoch: all, refused, highest epoch', `${fenced.calls}, ${fenced.refused}, ${fenced.highest}`],
    ['old epochs that were accepted', findings.fences.length],
    ['unexpected answers', findings.unexpected.length],
  ]
  console.log('\n| | |\n|---|---|')
  for (const [name, value] of rows) console.log(`| ${name} | ${value} |`)
  console.log(`\nrefusals: ${[...writes.refusals].map(([name, count]) => `${count} × ${name}`).join('; ')}`)
  for (const [name, list] of [...findings.lists, ['late guests', probe.lateGuests] as const])
    for (const text of list.slice(0, 20)) console.log(`${name}: ${text}`)
}

function printFaults({ results }: TrialResult): void {
  console.log('| fault | number | no write of a key acknowledged (median, p95, max) | ready | whole view after that |')
  console.log('|---|---|---|---|---|')
  for (const kind of faultKinds) {
    const own = results.filter((result) => result.kind === kind)
    const column = (key: 'gapMs' | 'readyMs' | 'viewMs'): string =>
      summary(
        own.flatMap((result) => (result[key] === undefined ? [] : [result[key]])),
        [0.5, 0.95, 1],
      )
    console.log(`| ${kind} | ${own.length} | ${column('gapMs')} | ${column('readyMs')} | ${column('viewMs')} |`)
  }
}

/** Percentiles in ms, by default median, p99 and maximum, and the number of values. */
function summary(values: readonly number[], parts = [0.5, 0.99, 1]): string {
  if (values.length === 0) return ''
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!
  return `${parts.map((part) => at(part).toFixed(at(part) < 10 ? 1 : 0)).join(', ')} ms (${values.length})`
}
