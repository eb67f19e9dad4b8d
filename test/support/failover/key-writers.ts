import type { FailoverLab } from './failover-lab.js'
import type { Findings } from './findings.js'
import type { VisibilityProbe } from './visibility-probe.js'
import type { LabReply } from './lab-client.js'
import { codeOf, type Writes } from './writes.js'

interface CreatedKey {
  readonly name: string
  readonly id: number
  readonly key: string
  readonly createdMs: number
}

/** One of this many keys is never deleted. */
const keptOf = 4
/** Age in ms at which a key may be deleted. */
const leastAgeMs = 3000

const isDone = ({ status }: LabReply): boolean => status === 404

/** Creates and deletes API keys. */
export class KeyWriters {
  /** Names of keys that must exist at the end. */
  readonly kept = new Set<string>()
  readonly deleted = new Set<string>()
  readonly uncertain = new Set<string>()
  readonly #deletable: CreatedKey[] = []
  #count = 0

  constructor(
    private readonly lab: FailoverLab,
    private readonly writes: Writes,
    private readonly findings: Findings,
    private readonly probe: VisibilityProbe,
  ) {}

  async create(): Promise<void> {
    const name = `key-${this.#count++}`
    const isKept = this.#count % keptOf === 0
    this.uncertain.add(name)
    const request = { body: { name, scopes: ['*'] }, idempotencyKey: name }
    const send = () => this.lab.client.send('POST', '/api-keys', request)
    const { outcome, reply } = await this.writes.make(send, { isKey: true })
    if (outcome !== 'unanswered') this.uncertain.delete(name)
    if (outcome !== 'acknowledged')
      return void this.findings.unexpected.push(`creation of ${name}: ${outcome}, ${reply.status} ${codeOf(reply)}`)
    this.kept.add(name)
    const { id, key } = reply.body.data as { id: number; key: string }
    if (this.probe.isFree) await this.#probe(`new key ${name}`, key, { new: 200, old: 401 })
    if (!isKept) this.#deletable.push({ name, id, key, createdMs: performance.now() })
  }

  /** Deletes the oldest key that may be deleted. @returns false if no key is old enough */
  async deleteOldest(): Promise<boolean> {
    const [oldest] = this.#deletable
    if (!oldest || performance.now() - oldest.createdMs < leastAgeMs) return false
    this.#deletable.shift()
    await this.#delete(oldest)
    return true
  }

  async #delete({ name, id, key }: CreatedKey): Promise<void> {
    this.kept.delete(name)
    this.uncertain.add(name)
    const send = () => this.lab.client.send('DELETE', `/api-keys/${id}`)
    const { outcome, reply, attempts } = await this.writes.make(send, { isDone, isKey: true })
    if (outcome === 'unanswered') return
    this.uncertain.delete(name)
    if (outcome === 'acknowledged') {
      this.deleted.add(name)
      if (this.probe.isFree) await this.#probe(`deleted key ${name}`, key, { new: 401, old: 200 })
      return
    }
    const list = reply.status === 404 ? this.findings.lost : this.findings.unexpected
    list.push(`${name} at its deletion (request ${attempts}): ${reply.status} ${codeOf(reply)}`)
  }

  #probe(what: string, key: string, statuses: { readonly new: number; readonly old: number }): Promise<void> {
    return this.probe.run({
      what,
      read: ({ client }) => client.send('GET', '/language', { key }),
      judge: ({ status }) => (status === statuses.new ? 'new' : status === statuses.old ? 'old' : undefined),
    })
  }
}
