import { applyPlan, type Outcome } from '../apply/apply-plan.js'
import { countsText, differenceLines, differenceRows } from '../apply/difference.js'
import { kindOf, nameKey } from '../apply/kinds.js'
import { planChanges, type Plan } from '../apply/plan-changes.js'
import { planWanted, type Problem, type WantedState } from '../apply/plan-wanted.js'
import { readFleetFile, type FleetFile } from '../apply/read-file.js'
import { readPresent, type PresentFleet } from '../apply/read-present.js'
import type { BerthClient } from '../../client/index.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import { confirm } from '../input/confirm.js'
import { filterJson, formatJson } from '../output/print.js'
import { printable } from '../output/width.js'
import { openSession, outputOptions, timeoutOf, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { waitWithProgress } from '../tasks/wait.js'

export interface ApplyRun {
  /** Path of the fleet file; `-` is the standard input. */
  readonly file: string
  readonly isDryRun: boolean
  readonly isPruned: boolean
  readonly isConfirmed: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/**
 * Shows the difference between a fleet file and the fleet, and applies the file after a confirmation.
 * @throws {CliError} `usage` if the file is wrong, `conflict` if a dry run finds changes, `failed` if a change fails
 */
export async function runApply(run: ApplyRun): Promise<void> {
  checkOptions(run)
  const { surroundings, options } = run
  const file = await readFleetFile(run.file, surroundings.readFile(run.file))
  const { wanted, problems } = planWanted(file.documents)
  refuseProblems(file, problems)
  if (run.isPruned && !wanted.sections.has('guests'))
    throw usageError('--prune: the file has no section guests', 'guests: [] deletes all guests of the set')
  const { client } = await openSession(surroundings, options)
  const fleet = await readFleet(client, wanted)
  const plan = planChanges(wanted, fleet, run.isPruned)
  refuseProblems(file, plan.problems)
  show(run, plan, fleet)
  if (run.isDryRun) return endDryRun(plan, fleet)
  await carryOut(run, { client, wanted, fleet, plan })
}

/** @throws {CliError} `usage` */
function checkOptions({ options, isDryRun, surroundings }: ApplyRun): void {
  const { form } = outputOptions(options, 'apply', surroundings.width)
  if (form !== 'table' && (form !== 'json' || !isDryRun))
    throw usageError('-o: must be json, and is only possible with --dry-run')
  if (!options.wait) throw usageError('--no-wait: is not possible, because later steps need the results of tasks')
}

const maxProblems = 50

/** @throws {CliError} `usage` */
function refuseProblems(file: FleetFile, problems: readonly Problem[]): void {
  if (problems.length === 0) return
  const lines = problems.slice(0, maxProblems).map((problem) => file.describe(problem))
  const more = problems.length > maxProblems ? [`${problems.length - maxProblems} more problems`] : []
  throw usageError([...lines, ...more].join('\n'), 'nothing was changed')
}

function readFleet(client: BerthClient, { sections, items }: WantedState): Promise<PresentFleet> {
  const filtered = new Set(
    items.flatMap(({ kind, name, fields }) =>
      kind.noun === 'guest' && fields['firewall'] !== undefined ? [nameKey(kind, name)] : [],
    ),
  )
  return readPresent(client, {
    sections,
    needsFirewall: (name) => filtered.has(nameKey(kindOf('guest'), name)),
    isLenient: false,
  })
}

function show({ options, surroundings }: ApplyRun, plan: Plan, { unread }: PresentFleet): void {
  const lines = differenceLines(plan).map((line) => `${line}\n`)
  const { form, jq } = outputOptions(options, 'apply', surroundings.width)
  if (form === 'json') surroundings.writeOut(filterJson(formatJson(differenceRows(plan.changes)), jq))
  else if (!options.quiet) surroundings.writeOut(lines.join(''))
  for (const line of unread) surroundings.writeError(`not compared: ${printable(line)}\n`)
  if (plan.changes.length + plan.unfinished.length === 0) surroundings.writeError('Nothing to change.\n')
}

/** @throws {CliError} `conflict` if something would change */
function endDryRun({ changes }: Plan, { unread }: PresentFleet): void {
  if (changes.length > 0)
    throw new CliError(exitCodes.conflict, `the fleet differs from the file: ${countsText(changes)}`)
  refuseUnread(unread)
}

/** @throws {CliError} `failed` if firewalls could not be read */
function refuseUnread(unread: readonly string[]): void {
  if (unread.length > 0) throw new CliError(exitCodes.failed, 'not everything could be compared with the file')
}

interface Work {
  readonly client: BerthClient
  readonly wanted: WantedState
  readonly fleet: PresentFleet
  readonly plan: Plan
}

/** Applies a plan after a confirmation. @throws {CliError} `failed` if a change failed */
async function carryOut(run: ApplyRun, { client, wanted, fleet, plan }: Work): Promise<void> {
  const { surroundings, options, isConfirmed } = run
  if (plan.changes.length + plan.unfinished.length === 0) return refuseUnread(fleet.unread)
  if (plan.changes.length > 0 && !isConfirmed) await confirm(`Apply the changes (${countsText(plan.changes)})?`)
  const waiting = { timeoutMs: timeoutOf(options), surroundings, isQuiet: options.quiet ?? false }
  await waitWithProgress(waiting, 'run the same command again: it continues with the rest', async (following) => {
    const showSecret = (text: string): void => {
      following.showProgress(undefined)
      surroundings.writeOut(`${printable(text)}\n`)
    }
    const context = { client, names: fleet.names, set: wanted.set, following, showSecret }
    const progress = {
      show: (line: string) => following.showProgress(line),
      report: (line: string) => following.report(line),
    }
    endRun(await applyPlan(context, plan, progress), surroundings)
  })
  refuseUnread(fleet.unread)
}

/** @throws {CliError} `failed` if a change failed */
function endRun({ all, failed }: Outcome, surroundings: Surroundings): void {
  if (failed > 0)
    throw new CliError(exitCodes.failed, `${failed} of ${all} changes failed`, 'run the same command to try again')
  surroundings.writeError(`${all} of ${all} changes done.\n`)
}
