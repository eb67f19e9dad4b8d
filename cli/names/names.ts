import type { NamedKind } from '../catalog/operation.js'
import { RefusedError, type BerthClient } from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'
import { matchName, type Candidate } from './plan-match.js'

/* This module converts names and beginnings of UUIDs to the ids that the API expects. */

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The lists of names that one command needs. Each list is requested at most once. */
export class Names {
  readonly #lists = new Map<'guest' | 'host', Promise<Candidate[]>>()

  constructor(private readonly client: BerthClient) {}

  /**
   * Converts a text to the id that the API expects. With `guest`, the API accepts id, UUID and name, so the text stays
   * unchanged (see `correct`). @throws {CliError} `notFound`
   */
  async resolve(text: string, names: NamedKind): Promise<string> {
    if (names === 'guest' || text === '') return text
    if (names === 'host') return (await this.#find('host', text)).id
    if (names === 'guest-id') return /^\d+$/.test(text) ? text : (await this.#find('guest', text)).id
    return uuidForm.test(text) ? text : (await this.#find('guest', text)).uuid
  }

  /**
   * Returns the UUID of the guest whose UUID begins with this text. Returns undefined if the guests cannot be listed.
   * Also returns undefined if a guest has this id, UUID or name, because the 404 was then about another object.
   * @throws {CliError} `notFound`, with similar names
   */
  async correct(text: string): Promise<string | undefined> {
    const candidates = await this.list('guest').catch(() => undefined)
    if (candidates === undefined || candidates.some(({ id, name, uuid }) => [id, name, uuid].includes(text)))
      return undefined
    return (await this.#find('guest', text)).uuid
  }

  list(kind: 'guest' | 'host'): Promise<Candidate[]> {
    const known = this.#lists.get(kind) ?? readCandidates(this.client, kind)
    this.#lists.set(kind, known)
    return known
  }

  async #find(kind: 'guest' | 'host', text: string): Promise<Candidate> {
    const match = matchName(text, await this.list(kind))
    if ('found' in match) return match.found
    const { similar, isAmbiguous } = match
    if (isAmbiguous) throw new CliError(exitCodes.usage, `${kind} ${text} is ambiguous`, `one of ${similar.join(', ')}`)
    const hint = similar.length > 0 ? `did you mean ${similar.join(' or ')}?` : `list the names: berth ${kind} list`
    throw new CliError(exitCodes.notFound, `${kind} ${text} not found`, hint)
  }
}

async function readCandidates(client: BerthClient, kind: 'guest' | 'host'): Promise<Candidate[]> {
  const { body } = await client.send({ method: 'GET', path: kind === 'guest' ? '/containers/list' : '/hosts' })
  const rows = body.data as readonly { id: number | string; name: string; uuid?: string }[]
  return rows.map(({ id, name, uuid }) => ({ id: String(id), name, uuid: uuid ?? String(id) }))
}

/** True if an answer says that the object in the path does not exist. */
export const isNotFound = (cause: unknown): boolean => cause instanceof RefusedError && cause.status === 404
