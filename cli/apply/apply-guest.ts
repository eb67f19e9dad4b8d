import {
  pollUntilEnd,
  RefusedError,
  taskIdsOf,
  type Answer,
  type BerthClient,
  type ClientRequest,
} from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'
import { followTasks, type FollowOptions } from '../tasks/follow.js'
import { markOf, withMark } from './marks.js'
import type { Alteration, Deletion } from './plan-changes.js'
import type { CurrentItem, NamesOfIds } from './plan-current.js'
import { createRequest, guestRequests } from './plan-requests.js'
import type { WantedItem } from './plan-wanted.js'
import { readGuestState, type GuestState } from './read-present.js'

/* This module makes guests match a fleet file. Each step reads the guest again, because runs can be interrupted. */

export interface ApplyContext {
  readonly client: BerthClient
  readonly names: NamesOfIds
  /** Name of the file's set of guests. New guests get the tag of this set. */
  readonly set: string
  readonly following: Pick<FollowOptions, 'timeoutMs' | 'nowMs'>
  /** Prints a secret that the gateway shows only once. */
  showSecret(text: string): void
}

/** Creates a guest with the tag of its set. */
export async function createGuest(context: ApplyContext, wanted: WantedItem): Promise<void> {
  const { client, names, set } = context
  const marked = { ...wanted, fields: withMark(wanted.fields, set) }
  const answer = await client.send(createRequest(marked, names))
  const { uuid, ssh_password: password } = answer.body.data as { uuid: string; ssh_password: string }
  if (password !== '') context.showSecret(`guest ${wanted.name}: password ${password}`)
  await followAll(context, answer)
  await converge(context, marked, uuid)
}

/** @throws {CliError} `conflict` if the guest now needs other changes than those that the user has seen */
export async function changeGuest(context: ApplyContext, { wanted, current }: Alteration): Promise<void> {
  await waitUntilCreated(context, current)
  const { current: now } = await readState(context, wanted, current.id)
  if (JSON.stringify(guestRequests(wanted, now)) !== JSON.stringify(guestRequests(wanted, current)))
    throw new CliError(exitCodes.conflict, 'was changed in the meantime: run the command again')
  await converge(context, wanted, current.id)
}

/** Waits until an earlier run has created the guest. @throws {CliError} `failed` if the creation fails */
export async function waitUntilCreated({ client, following }: ApplyContext, guest: CurrentItem): Promise<void> {
  if (guest.status !== 'creating') return
  const request = { method: 'GET', path: `/containers/${encodeURIComponent(guest.id)}` }
  try {
    await pollUntilEnd({
      read: async () => (await client.send(request)).data as { status: string },
      isEnded: ({ status }) => status !== 'creating',
      show: () => undefined,
      timeoutMs: following.timeoutMs ?? Infinity,
      timedOut: () => new CliError(exitCodes.unreachable, 'was not created in time'),
    })
  } catch (cause) {
    if (!(cause instanceof RefusedError) || cause.status !== 404) throw cause
    throw new CliError(exitCodes.failed, 'its creation failed: run the command again')
  }
}

/** Deletes a guest if it still has the tag of its set. */
export async function deleteGuest(context: ApplyContext, { current }: Deletion): Promise<void> {
  const { client, names, set } = context
  const { current: now, etag } = await readGuestState(client, current.id, { names, needsFirewall: false })
  if (!(now.fields['tags'] as string[]).includes(markOf(set)))
    throw new CliError(exitCodes.conflict, 'was changed in the meantime: run the command again')
  const path = `/containers/${encodeURIComponent(current.id)}/delete`
  await followAll(context, await client.send({ method: 'DELETE', path, ifMatch: etag }))
}

/** Maximum number of times that a request is repeated because another client has changed the guest. */
const maxOvertaken = 10

/** Sends requests one after another until the guest matches the file. @throws {CliError} if a request has no effect */
async function converge(context: ApplyContext, wanted: WantedItem, uuid: string): Promise<void> {
  let sent = ''
  for (let overtaken = 0; ;) {
    const { current, etag } = await readState(context, wanted, uuid)
    const [request] = guestRequests(wanted, current)
    if (request === undefined) return
    if (JSON.stringify(request) === sent)
      throw new CliError(exitCodes.failed, `${request.method} ${request.path} was accepted, but changed nothing`)
    if (await isAccepted(context, { ...request, ifMatch: etag })) sent = JSON.stringify(request)
    else if (++overtaken > maxOvertaken)
      throw new CliError(exitCodes.conflict, 'is being changed by another caller: try again later')
  }
}

/** Sends a request. @returns false if another client has changed the guest in the meantime */
async function isAccepted(context: ApplyContext, request: ClientRequest): Promise<boolean> {
  try {
    await followAll(context, await context.client.send(request))
    return true
  } catch (cause) {
    if (cause instanceof RefusedError && cause.status === 412) return false
    if (cause instanceof RefusedError && cause.refusal.code === 'precondition_failed') return false
    throw cause
  }
}

function readState({ client, names }: ApplyContext, { fields }: WantedItem, uuid: string): Promise<GuestState> {
  return readGuestState(client, uuid, { names, needsFirewall: fields['firewall'] !== undefined })
}

async function followAll({ client, following }: ApplyContext, { status, body }: Answer): Promise<void> {
  const ids = taskIdsOf(status, body.data)
  const nowMs = (): number => following.nowMs()
  await followTasks(client, ids, { timeoutMs: following.timeoutMs, nowMs, ...silent })
}

const silent = { showProgress: () => undefined, report: () => undefined }
