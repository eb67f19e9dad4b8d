import { RefusedError, type ClientRequest, type Envelope } from '../../client/index.js'
import type { FleetFacts } from './facts.js'

/** The part of the client that reads facts. */
interface Sender {
  send(request: ClientRequest): Promise<{ readonly body: Envelope }>
}

export interface ReadFacts {
  readonly facts: FleetFacts
  readonly unchecked: readonly { readonly part: string; readonly reason: string }[]
  /** True if the API key is not allowed to read any of the facts. */
  readonly isAllUnchecked: boolean
}

interface Part {
  readonly field: Exclude<keyof FleetFacts, 'now'>
  readonly name: string
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
}

/** Maximum number of failed tasks that are read. Nobody would read a longer list. */
const taskCount = '100'

const parts: readonly Part[] = [
  { field: 'hosts', name: 'hosts', path: '/hosts' },
  { field: 'usage', name: 'free space of hosts', path: '/fleet-usage' },
  { field: 'gateways', name: 'gateways', path: '/gateways' },
  { field: 'failedTasks', name: 'failed tasks', path: '/tasks', query: { status: 'failed', page_size: taskCount } },
  { field: 'ssl', name: 'TLS', path: '/ssl' },
  { field: 'authority', name: 'certificate authority', path: '/fleet/ca' },
  { field: 'upgrade', name: 'upgrade of the fleet', path: '/fleet/upgrade' },
]

/** Reads all facts that the key can read. @throws {CliError} if the gateway cannot be reached, or refuses the key */
export async function readFacts(client: Sender, nowMs: number): Promise<ReadFacts> {
  const answers = await Promise.all(parts.map(async (part) => ({ part, answer: await readPart(client, part) })))
  const unchecked = answers.flatMap(({ part, answer }) =>
    answer instanceof RefusedError ? [{ part: part.name, reason: answer.refusal.message }] : [],
  )
  const read = answers.filter(({ answer }) => !(answer instanceof RefusedError))
  const found = Object.fromEntries(read.map(({ part, answer }) => [part.field, answer])) as Omit<FleetFacts, 'now'>
  const now = await readNow(client, nowMs)
  return { facts: { ...found, now }, unchecked, isAllUnchecked: read.length === 0 }
}

/** Returns the data for a part of the facts, or the error if the key or an older gateway cannot provide the part. */
async function readPart(client: Sender, { path, query }: Part): Promise<unknown> {
  try {
    const { body } = await client.send({ method: 'GET', path, ...(query && { query }) })
    return body.data
  } catch (cause) {
    if (cause instanceof RefusedError && cause.status !== 401 && cause.status < 500) return cause
    throw cause
  }
}

/**
 * Returns the time in the time zone of the gateway, from the report of a host. The gateway chooses the host. If no host
 * has a report, returns the time of this machine.
 */
async function readNow(client: Sender, nowMs: number): Promise<string> {
  try {
    const { body } = await client.send({ method: 'GET', path: '/host-report' })
    return (body.data as { generated_at: string }).generated_at
  } catch (cause) {
    if (!(cause instanceof RefusedError)) throw cause
    return new Date(nowMs).toISOString().slice(0, 19).replace('T', ' ')
  }
}
