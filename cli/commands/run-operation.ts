import { commandOf, type NamedKind, type Operation } from '../catalog/operation.js'
import { taskIdsOf, type Answer, type BerthClient } from '../../client/index.js'
import { CliError, FilterError, usageError } from '../errors.js'
import { withFlag } from '../input/flag-errors.js'
import { planRequest, type Input, type PlannedRequest } from '../input/plan-request.js'
import { isNotFound, type Names } from '../names/names.js'
import { requireHost } from '../names/required-host.js'
import { formatJson, formatResult, type OutputOptions } from '../output/print.js'
import { CopyProgress } from '../copy/progress.js'
import { openFile } from '../copy/open-file.js'
import { checkTarget, writeFileWhole, writeToOutput } from '../copy/write-whole.js'
import { withInterrupt } from '../consoles/interrupt.js'
import { openSession, outputOptions, timeoutOf, type GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { waitForTasks } from '../tasks/wait.js'

/* This module runs the command of an API operation. */

export interface OperationRun {
  readonly operation: Operation
  readonly input: Input
  /** File for an answer of the form `file`. Default: the standard output. */
  readonly file?: string
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

export async function runOperation({ operation, input, file, options, surroundings }: OperationRun): Promise<void> {
  const output = outputOptions(options, commandOf(operation), surroundings.width)
  const timeoutMs = timeoutOf(options)
  planRequest(operation, input, surroundings) // reports wrong input before the first request
  if (operation.answer === 'file' && file !== undefined && file !== '-') await checkTarget(file)
  const { client, names } = await openSession(surroundings, options)
  const resolved = await resolveNames(operation, input, names)
  const request = planRequest(operation, resolved, surroundings)
  await requireHost(operation, request, names)
  if (operation.answer === 'file') return runDownload({ client, operation, request, surroundings }, file)
  if (operation.answer !== 'envelope') return runStream({ client, operation, request, surroundings })
  const sending = { client, names, operation, input: resolved, surroundings }
  const answer = await send(sending)
  const text = await formatAnswer(answer, output).catch((cause: unknown) => {
    throw operation.method === 'GET' ? cause : unprintable(cause, answer)
  })
  const tasks = options.wait ? taskIdsOf(answer.status, answer.body.data) : []
  if (text === '' && surroundings.hasProgress && !output.isQuiet) surroundings.writeError('no results\n')
  if (tasks.length === 0) return surroundings.writeOut(text)
  const waiting = waitForTasks(client, tasks, { timeoutMs, surroundings, isQuiet: output.isQuiet })
  surroundings.writeOut(text) // after the wait has begun, so that Ctrl-C never ends the program without its hint
  await waiting
}

/** Replaces names by the ids that the API expects. */
async function resolveNames(operation: Operation, input: Input, names: Names): Promise<Input> {
  const resolve = async (text: string, kind: NamedKind | undefined): Promise<string> =>
    kind === undefined ? text : names.resolve(text, kind)
  const values = await Promise.all(
    input.arguments.map((text, index) => resolve(text, operation.arguments[index]?.names)),
  )
  const flags = await Promise.all(
    [...input.flags].map(async ([name, given]): Promise<[string, readonly string[] | boolean]> => {
      const kind = operation.flags.find((flag) => flag.name === name)?.names
      if (kind === undefined || typeof given === 'boolean') return [name, given]
      const texts = given.flatMap((text) => text.split(','))
      return [name, await Promise.all(texts.map((text) => resolve(text, kind)))]
    }),
  )
  return { ...input, arguments: values, flags: new Map(flags) }
}

interface Sending {
  readonly client: BerthClient
  readonly names: Names
  readonly operation: Operation
  readonly input: Input
  readonly surroundings: Surroundings
}

function send(sending: Sending): Promise<Answer> {
  const { operation } = sending
  const sent = operation.upload ? sendFile(sending, operation.upload) : sendCorrected(sending)
  return sent.catch((cause: unknown) => {
    throw withFlag(cause, operation)
  })
}

/** Sends a request. If the API does not know the guest's name, takes it as the beginning of a guest's UUID. */
async function sendCorrected({ client, names, operation, input, surroundings }: Sending): Promise<Answer> {
  const request = planRequest(operation, input, surroundings)
  try {
    return await client.send(definedParts(request))
  } catch (cause) {
    const index = operation.arguments.findIndex((argument) => argument.names === 'guest')
    const text = input.arguments[index]
    if (text === undefined || !isNotFound(cause)) throw cause
    const known = await names.correct(text)
    if (known === undefined) throw cause
    const corrected = input.arguments.map((value, at) => (at === index ? known : value))
    return client.send(definedParts(planRequest(operation, { ...input, arguments: corrected }, surroundings)))
  }
}

/** Sends the file of the last argument as the body, with its progress. `-` is the standard input. */
async function sendFile({ client, operation, input, surroundings }: Sending, type: string): Promise<Answer> {
  const request = planRequest(operation, input, surroundings)
  const progress = new CopyProgress(surroundings)
  const { bytes, parts } = await openFile(input.arguments.at(-1)!)
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    for await (const part of parts) {
      yield part
      progress.add(part.length)
    }
  }
  const upload = { type, parts: counted(), ...(bytes !== undefined && { bytes }) }
  return withInterrupt((signal) => client.send({ ...definedParts(request), upload, signal })).finally(() =>
    progress.end(),
  )
}

function definedParts({ method, path, query, body }: PlannedRequest) {
  return { method, path, query, ...(body !== undefined && { body }) }
}

/** Formats the field `data` of an answer. If the answer has further fields, formats these fields, too. */
async function formatAnswer({ body }: Answer, output: OutputOptions): Promise<string> {
  const { success: _, message = '', data, ...more } = body
  const value = Object.keys(more).length === 0 ? data : { ...(data !== undefined && { data }), ...more }
  return formatResult(value, message, output)
}

/** Returns the error for the result of a change that cannot be printed as requested. Its result must not be lost. */
function unprintable(cause: unknown, { body }: Answer): unknown {
  if (!(cause instanceof CliError) || cause instanceof FilterError) return cause
  const hint = 'the request was carried out, and its result is printed as JSON'
  return new FilterError(cause.message, `${formatJson(body.data)}\n`, hint)
}

interface StreamRun {
  readonly client: BerthClient
  readonly operation: Operation
  readonly request: PlannedRequest
  readonly surroundings: Surroundings
}

/** Writes an answer to a file. The file gets its name only when it is complete. */
async function runDownload({ client, operation, request, surroundings }: StreamRun, file = '-'): Promise<void> {
  if (file === '-' && surroundings.width !== undefined)
    throw usageError('the result is an archive', `write it to a file: berth ${operation.example}`)
  await withInterrupt(async (signal) => {
    const { parts } = await client.open({ ...definedParts(request), signal })
    if (file === '-') await writeToOutput(parts)
    else await writeFileWhole(file, parts, new CopyProgress(surroundings))
  })
}

/** Passes on an answer that is not an envelope: lines, events or a picture. */
async function runStream({ client, operation, request, surroundings }: StreamRun): Promise<void> {
  if (operation.answer === 'picture' && surroundings.width !== undefined)
    throw usageError('the result is a picture', `write it to a file: berth ${operation.example}`)
  surroundings.endWithReader()
  const { parts } = await client.open(definedParts(request))
  for await (const part of parts) surroundings.writeOut(part)
}
