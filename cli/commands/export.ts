import { kinds } from '../apply/kinds.js'
import { defaultSet, isSetName } from '../apply/marks.js'
import { planExport } from '../apply/plan-export.js'
import { readPresent } from '../apply/read-present.js'
import { fleetFileText } from '../apply/write-file.js'
import { CliError, exitCodes, usageError } from '../errors.js'
import { filterJson, formatJson } from '../output/print.js'
import { printable } from '../output/width.js'
import { openSession, outputOptions, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'

export interface ExportRun {
  /** Name of the file's set; undefined: the default set. */
  readonly set: string | undefined
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Prints a fleet file of the present state. @throws {CliError} `failed` if firewalls could not be read */
export async function runExport({ set = defaultSet, options, surroundings }: ExportRun): Promise<void> {
  const { form, jq } = outputOptions(
    { output: options.jq === undefined ? 'yaml' : 'json', ...options },
    'export',
    surroundings.width,
  )
  if (form !== 'yaml' && form !== 'json') throw usageError(`-o ${form}: only yaml and json are possible`)
  if (!isSetName(set)) throw usageError(`--set: ${set} must be 1 to 20 lower-case letters, digits, "-", "_" and "."`)
  const { client } = await openSession(surroundings, options)
  const sections = new Set(kinds.map(({ section }) => section))
  const fleet = await readPresent(client, { sections, needsFirewall: () => true, isLenient: true })
  const { content, notes } = planExport(fleet.items, set)
  surroundings.writeOut(form === 'json' ? filterJson(formatJson(content), jq) : await fleetFileText(content))
  const missing = [...fleet.forbidden, ...notes, ...fleet.unread]
  for (const line of missing) surroundings.writeError(`note: ${printable(line)}\n`)
  if (fleet.unread.length > 0) throw new CliError(exitCodes.failed, 'the file is incomplete')
}
