import { createHash } from 'node:crypto'
import type { Nft } from '../host/nft.js'
import { CommandError } from '../host/process.js'
import type { GuestNetwork } from './contract.js'
import { ElementIndex, mergeElements } from './element-index.js'
import { parseElements, parseTable } from './parse-tables.js'
import { findStaleFlows, type StaleFlows } from './plan-purge.js'
import { planChange, planGuest, type ElementChange, type GuestElements } from './plan-guest.js'
import { families, planRemoval, planRuleset, type RulesetPlan } from './plan-ruleset.js'

interface Ensured {
  readonly repairs: string[]
  readonly stale: StaleFlows
}

interface Observed {
  readonly exists: boolean
  /** Hash of the plan and of all that nft shows of the tables but the guests' elements. */
  readonly fingerprint: string
  /** The fingerprint noted when the tables were made, or none. */
  readonly noted: string | undefined
  readonly elements: GuestElements
}

const noteChain = /\n\tchain fingerprint_([0-9a-f]{16}) \{\n\t\}\n/g

/**
 * The three tables on the host. Their structure is compared by a fingerprint noted in the kernel, as the name
 * of an empty chain: nft prints rules in a form of its own that changes between versions, so that what it
 * shows right after the tables were made is the reference.
 * Callers run one call at a time.
 */
export class Tables {
  #index: ElementIndex | undefined

  constructor(
    private readonly nft: Nft,
    private readonly plan: RulesetPlan,
  ) {}

  /** Reads the tables and makes them what they should be. */
  async ensure(guests: readonly GuestNetwork[]): Promise<Ensured> {
    const have = await this.#read()
    const index = this.#take(have)
    const change = index.planAll(guests)
    if (have.fingerprint === have.noted)
      return { repairs: describeChange(change), stale: await this.#apply(index, change) }
    const stale = findStaleFlows(change, (port) => index.findTarget(port))
    await this.#rebuild(mergeElements(guests.map(planGuest)))
    return { repairs: [have.exists ? 'nft tables rebuilt' : 'nft tables made'], stale }
  }

  /** The same from what was read before, where nobody else has changed the tables since. */
  async adapt(guests: readonly GuestNetwork[]): Promise<Ensured> {
    let repairs: string[] = []
    const planOn = (index: ElementIndex): ElementChange => {
      const change = index.planAll(guests)
      repairs = describeChange(change)
      return change
    }
    return { stale: await this.change(planOn, guests), repairs }
  }

  /**
   * Applies a change planned on what is there; where nft refuses it, someone else changed the tables: they
   * are read and mended with `known` guests first, and it is planned again.
   * @returns flows that belong to what was replaced or removed
   * @throws {CommandError} when it fails twice
   */
  async change(
    planOn: (index: ElementIndex) => ElementChange,
    known: readonly GuestNetwork[],
  ): Promise<StaleFlows> {
    const index = this.#index ?? (await this.#mend(known))
    try {
      return await this.#apply(index, planOn(index))
    } catch (cause) {
      if (!(cause instanceof CommandError)) throw cause
      const mended = await this.#mend(known)
      return this.#apply(mended, planOn(mended))
    }
  }

  async remove(): Promise<void> {
    this.#index = undefined
    await this.nft.apply(planRemoval(this.plan))
  }

  async #apply(index: ElementIndex, change: ElementChange): Promise<StaleFlows> {
    const stale = findStaleFlows(change, (port) => index.findTarget(port))
    await this.nft.apply(planChange(this.plan.table, change))
    index.applied(change)
    return stale
  }

  /** Without the complete list of guests nothing is removed. */
  async #mend(known: readonly GuestNetwork[]): Promise<ElementIndex> {
    const have = await this.#read()
    if (have.fingerprint === have.noted) return this.#take(have)
    const { guests, ports } = mergeElements([have.elements, ...known.map(planGuest)])
    return this.#rebuild({ guests: [...new Set(guests)], ports })
  }

  /** One transaction from whatever was there to the whole: at no moment a guest without anti-spoofing. */
  async #rebuild(elements: GuestElements): Promise<ElementIndex> {
    const { table } = this.plan
    const all = { removeGuests: [], removePorts: [], addGuests: elements.guests, addPorts: elements.ports }
    await this.nft.apply([...planRemoval(this.plan), ...planRuleset(this.plan), ...planChange(table, all)])
    const made = await this.#read()
    await this.nft.apply([`add chain inet ${table} fingerprint_${made.fingerprint}`])
    return this.#take(made)
  }

  #take(have: Observed): ElementIndex {
    return (this.#index = new ElementIndex(have.elements))
  }

  async #read(): Promise<Observed> {
    const texts: string[] = []
    for (const family of families) texts.push((await this.nft.readTable(family, this.plan.table)) ?? '')
    const [bridge, inet, ip] = texts.map(parseTable)
    const structure = [bridge, inet, ip].map((table) => table!.structure).join('')
    const notes = [...structure.matchAll(noteChain)].map(([, hash]) => hash)
    const hashed = planRuleset(this.plan).join('\n') + structure.replace(noteChain, '')
    return {
      exists: texts.some((text) => text !== ''),
      fingerprint: createHash('sha256').update(hashed).digest('hex').slice(0, 16),
      noted: notes.length === 1 ? notes[0] : undefined,
      elements: parseElements(bridge!, ip!),
    }
  }
}

function describeChange(change: ElementChange): string[] {
  const counts = [
    [change.removeGuests.length + change.removePorts.length, 'removed'],
    [change.addGuests.length + change.addPorts.size, 'added'],
  ] as const
  return counts.flatMap(([count, what]) => (count === 0 ? [] : [`${count} nft elements ${what}`]))
}
