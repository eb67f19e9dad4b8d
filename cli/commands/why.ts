import { CliError, exitCodes } from '../errors.js'
import { parseWhole } from '../input/values.js'
import { readGuest } from '../names/guest.js'
import { formatResult } from '../output/print.js'
import { printable } from '../output/width.js'
import { openSession, outputOptions, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { nextStep, stepLines, verdict, type Diagnosis } from '../why/plan-why.js'

export interface WhyRun {
  readonly guest: string
  readonly port: string
  /** Address of the client that cannot connect; undefined: the address of this client. */
  readonly source: string | undefined
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Explains why a port of a guest cannot be reached. @throws {CliError} `failed` if the port cannot be reached */
export async function runWhy({ guest, port, source, options, surroundings }: WhyRun): Promise<void> {
  parseWhole('port', port, [1, 65_535])
  const output = outputOptions(options, 'why', surroundings.width)
  const session = await openSession(surroundings, options)
  const { uuid, name } = await readGuest(session, guest)
  const query = { port, ...(source !== undefined && { source }) }
  const { body } = await session.client.send({ method: 'GET', path: `/containers/${uuid}/connection`, query })
  const diagnosis = body.data as Diagnosis
  const isText = output.form === 'table' && output.columns === undefined
  const lines = stepLines(diagnosis).map((line) => `${printable(line)}\n`)
  surroundings.writeOut(isText ? lines.join('') : await formatResult(diagnosis, '', output))
  if (!diagnosis.reachable) throw new CliError(exitCodes.failed, verdict(diagnosis, name), nextStep(diagnosis, name))
  if (isText) surroundings.writeOut(`${printable(verdict(diagnosis, name))}\n`)
}
