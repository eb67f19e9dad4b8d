import { usageError } from '../errors.js'
import { confirm } from '../input/confirm.js'
import { hostNames } from '../moves/host-names.js'
import { moveSentences, type MovePlan } from '../moves/plan-move.js'
import { readGuest } from '../names/guest.js'
import { formatResult } from '../output/print.js'
import { printable } from '../output/width.js'
import { openSession, outputOptions, timeoutOf, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { waitForTasks } from '../tasks/wait.js'

/** Options of the command, as texts from the command line. */
export interface MigrateSettings {
  readonly offline?: true
  readonly bandwidthMbps?: string
  readonly maxDowntimeMs?: string
}

export interface MigrateRun {
  readonly guest: string
  /** Name or id of the target host; undefined: the gateway chooses the host. */
  readonly host: string | undefined
  readonly settings: MigrateSettings
  readonly isConfirmed: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Shows how a guest would move, moves it after a confirmation, and waits for the end. */
export async function runMigrate(run: MigrateRun): Promise<void> {
  const { options, surroundings } = run
  const output = outputOptions(options, 'migrate', surroundings.width)
  const timeoutMs = timeoutOf(options)
  const settings = bodyOf(run.settings)
  const { client, names } = await openSession(surroundings, options)
  const { uuid, name } = await readGuest({ client, names }, run.guest)
  const target = run.host === undefined ? undefined : await names.resolve(run.host, 'host')
  const send = async (body: object): Promise<MovePlan> => {
    const request = { ...body, ...settings }
    return (await client.send({ method: 'POST', path: `/containers/${uuid}/migrate`, body: request })).body
      .data as MovePlan
  }
  const plan = await send({ dry_run: true, ...(target !== undefined && { host_id: target }) })
  const sentences = moveSentences(plan, await hostNames(names))
  surroundings.writeError(sentences.map((line) => `${printable(line)}\n`).join(''))
  if (!run.isConfirmed) await confirm(`Move ${printable(name)} now?`)
  const started = await send({ host_id: plan.to_host_id })
  if (output.form !== 'table' || output.isQuiet) surroundings.writeOut(await formatResult(started, '', output))
  if (options.wait) await waitForTasks(client, [started.task_id], { timeoutMs, surroundings, isQuiet: output.isQuiet })
  else surroundings.writeError(`The task has started: berth task get ${started.task_id}\n`)
}

/** @throws {CliError} `usage` */
function bodyOf({ offline, bandwidthMbps, maxDowntimeMs }: MigrateSettings): object {
  return {
    offline: offline ?? false,
    ...(bandwidthMbps !== undefined && { bandwidth_mbps: parseNumber('--bandwidth-mbps', bandwidthMbps) }),
    ...(maxDowntimeMs !== undefined && { max_downtime_ms: parseNumber('--max-downtime-ms', maxDowntimeMs) }),
  }
}

function parseNumber(flag: string, text: string): number {
  if (!/^\d+$/.test(text)) throw usageError(`${flag}: ${text} is not a whole number`)
  return Number(text)
}
