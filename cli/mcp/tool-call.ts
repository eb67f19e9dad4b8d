import { taskIdsOf, TimeoutError, type Answer, type ClientRequest, type Task } from '../../client/index.js'
import type { NamedKind } from '../catalog/operation.js'
import { usageError } from '../errors.js'
import { describeError } from '../../shared/errors.js'
import { hostNames } from '../moves/host-names.js'
import { readGuest } from '../names/guest.js'
import type { Session } from '../session.js'
import { confirmField, type Tool } from './plan-tools.js'

/* This module carries out the call of a tool. */

export type Arguments = Readonly<Record<string, unknown>>

export interface CallContext extends Session {
  readonly signal: AbortSignal
  /** Asks the user. Resolves with undefined if the assistant's program cannot ask. */
  readonly ask: (question: string) => Promise<boolean | undefined>
  readonly showProgress: (task: Task) => void
}

/** Content of a result, in the form of the Model Context Protocol. */
export type Content =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly data: string; readonly mimeType: string }

/** Default number of rows of a list. It is small, because an assistant must read all rows. */
const defaultPageSize = 50
/** Maximum number of characters of the arguments in a question. */
const maxShown = 1000
/** Longest time in ms to wait for tasks. By default, programs of assistants end a call after a minute. */
const maxWaitMs = 45_000

/** @throws {CliError} `usage`, and as `BerthClient.send` */
export async function callTool(tool: Tool, given: Arguments, context: CallContext): Promise<Content[]> {
  refuseUnknown(tool, given)
  const { values, subject } = await resolve(tool, given, context)
  if (tool.annotations.destructiveHint) await requireConfirmation(tool, { given, subject, context })
  const request = { ...requestOf(tool, values), signal: context.signal }
  if (tool.operation.answer === 'picture') return [await readPicture(request, context)]
  const answer = await context.client.send(request)
  return [textOf(await resultOf(answer, context))]
}

const textOf = (value: unknown): Content => ({ type: 'text', text: JSON.stringify(value, undefined, 1) })

/** The gateway ignores unknown fields. An assistant that made up a field must learn that the field has no effect. */
function refuseUnknown({ inputSchema: { properties = {}, required = [] } }: Tool, given: Arguments): void {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(properties, name))
  if (unknown.length > 0) throw usageError(`unknown arguments: ${unknown.join(', ')}`)
  const missing = required.filter((name) => given[name] === undefined)
  if (missing.length > 0) throw usageError(`missing arguments: ${missing.join(', ')}`)
}

interface ToolTarget {
  /** The arguments, with ids in place of names. */
  readonly values: Arguments
  /** Name of the object that the call changes. */
  readonly subject: string
}

async function resolve(tool: Tool, given: Arguments, { client, names }: CallContext): Promise<ToolTarget> {
  const { arguments: args, flags } = tool.operation
  const values: Record<string, unknown> = { ...given }
  let subject = tool.name
  for (const { label, place, names: kind } of args) {
    if (place !== 'path') continue
    subject = String(given[label])
    if (kind === 'guest') {
      const guest = await readGuest({ client, names }, subject)
      return { values: { ...(await withIds(flags, values, names)), [label]: guest.uuid }, subject: guest.name }
    }
    if (kind === 'host') {
      values[label] = await names.resolve(subject, kind)
      subject = (await hostNames(names))(String(values[label]))
    }
  }
  const listed = Array.isArray(given['containers']) ? (given['containers'] as unknown[]) : []
  if (listed.length > 0) subject = [given['action'], await namesOfGuests(listed, names)].join(' ').trim()
  return { values: await withIds(flags, values, names), subject }
}

/** Replaces names in fields that the API expects to contain ids. */
async function withIds(
  flags: Tool['operation']['flags'],
  values: Arguments,
  names: CallContext['names'],
): Promise<Record<string, unknown>> {
  const idOf = (kind: NamedKind) => (value: unknown) => names.resolve(String(value), kind)
  const result: Record<string, unknown> = { ...values }
  for (const { field, names: kind } of flags) {
    const value = result[field]
    if (kind === undefined || value === undefined) continue
    result[field] = Array.isArray(value) ? await Promise.all(value.map(idOf(kind))) : await idOf(kind)(value)
  }
  return result
}

async function namesOfGuests(listed: readonly unknown[], names: CallContext['names']): Promise<string> {
  const guests = await names.list('guest')
  return listed
    .map(String)
    .map((text) => guests.find(({ id, uuid, name }) => [id, uuid, name].includes(text))?.name ?? text)
    .join(', ')
}

interface Confirmation {
  readonly given: Arguments
  readonly subject: string
  readonly context: CallContext
}

/** @throws {CliError} `usage` */
async function requireConfirmation(
  { title, operation }: Tool,
  { given, subject, context }: Confirmation,
): Promise<void> {
  const call = `berth ${title} ${subject} with ${argumentsText(given)}`
  const isConfirmed = await context.ask(`${call}: ${operation.summary}. Continue?`)
  if (isConfirmed === true) return
  if (isConfirmed === false) throw usageError('the user has refused this call: nothing was changed')
  if (given[confirmField] === subject) return
  throw usageError(
    `nothing was changed: ask the user to confirm ${call}, then call again with ${confirmField}: ${JSON.stringify(subject)}`,
  )
}

/** Returns the arguments as the user sees them before a confirmation. JSON escapes control characters. */
function argumentsText({ [confirmField]: _, ...given }: Arguments): string {
  const text = JSON.stringify(given)
  return text.length > maxShown ? `${text.slice(0, maxShown)} … (${text.length} characters)` : text
}

function requestOf({ operation, queryFields, hasPages }: Tool, values: Arguments): ClientRequest {
  const labels = new Map(
    operation.arguments.flatMap(({ place, label, field }) => (place === 'path' ? [[field, label]] : [])),
  )
  const path = operation.path.replace(/\{(\w+)\}/g, (_, field: string) => pathPart(values[labels.get(field) ?? '']))
  const others = Object.entries(values).filter(
    ([name]) => name !== confirmField && ![...labels.values()].includes(name),
  )
  const query = others.filter(([name]) => queryFields.has(name)).map(([name, value]) => [name, String(value)])
  const body = others.filter(([name]) => !queryFields.has(name))
  const page = hasPages ? { page_size: defaultPageSize } : {}
  return {
    method: operation.method,
    path,
    query: { ...page, ...(Object.fromEntries(query) as Record<string, string>) },
    ...(operation.hasBody && { body: Object.fromEntries(body) }),
  }
}

/** @throws {CliError} `usage` */
function pathPart(value: unknown): string {
  const text = String(value)
  if (/^\.{0,2}$/.test(text)) throw usageError(`${JSON.stringify(text)} is not an id`)
  return encodeURIComponent(text)
}

async function readPicture(request: ClientRequest, { client }: CallContext): Promise<Content> {
  const { bytes } = await client.read(request)
  return { type: 'image', data: Buffer.from(bytes).toString('base64'), mimeType: 'image/png' }
}

/** Returns the content of an answer, after its tasks have ended or the longest time is over. */
async function resultOf({ status, body, data, total }: Answer, context: CallContext): Promise<object> {
  const { success: _, ...rest } = body
  const rows = Array.isArray(data) && total !== undefined && total > data.length ? { total_rows: total } : {}
  const ids = taskIdsOf(status, data)
  return ids.length === 0 ? { ...rest, ...rows } : { ...rest, tasks: await followAll(ids, context) }
}

async function followAll(ids: readonly string[], { client, signal, showProgress }: CallContext): Promise<object[]> {
  const endMs = performance.now() + maxWaitMs
  const results: object[] = []
  for (const id of ids) {
    const timeoutMs = Math.max(0, endMs - performance.now())
    const task = client.followTask(id, { onProgress: showProgress, timeoutMs, signal })
    results.push(
      await task.then(shortTask, (cause: unknown) => {
        if (cause instanceof TimeoutError)
          return { task_id: id, status: 'running', hint: 'the task continues: read it with task_get' }
        // The gateway has accepted the call. An error here must not make the assistant repeat the call.
        const hint = `the call was accepted, but its task cannot be read: ${describeError(cause)}`
        return { task_id: id, status: 'unknown', hint }
      }),
    )
  }
  return results
}

const shortTask = ({ task_id, status, error, error_code }: Task): object => ({
  task_id,
  status,
  ...(error !== '' && { error, error_code }),
})
