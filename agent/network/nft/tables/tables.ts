import type { Nft } from '../../../host/net/nft.js'
import { CommandError } from '../../../host/process/process.js'
import type { GuestNetwork } from '../../contract.js'
import { ElementIndex, hashFirewall, mergeElements } from './element-index.js'
import { fingerprintNote, readCounted, readFirewallNotes, readTables, type ObservedTables } from './observed.js'
import { planTableChange, type TableChange } from './plan-change.js'
import { countersOf, planGuest, type ElementId } from './plan-guest.js'
import { findStaleFlows, type StaleFlows } from './plan-purge.js'
import { planTableRemoval, planRuleset, type RulesetPlan } from './plan-ruleset.js'
import { planWatchRemoval } from '../ruleset/plan-watch-table.js'

interface EnsureResult {
  readonly repairs: string[]
  readonly stale: StaleFlows
}

/** Maximum time in ms from another program's change to the report of the netlink watch. */
const doubtMs = 1000

/** Maintains the tables on the host and guests' elements in them. Callers must not call it concurrently. */
export class Tables {
  /** Time at which the tables were last created, by performance.now(); Infinity during creation. */
  #madeAtMs = -Infinity
  /** True if another program may have changed the tables before their hash was stored. The hash can then be wrong. */
  #doubted = false
  #index: ElementIndex | undefined
  /** Bytes that each element had counted at the last read. Rebuilt tables continue to count from these values. */
  readonly #counted = new Map<ElementId, number>()
  /** Devices whose firewalls were set since the last `noteFirewalls`. */
  readonly #unnoted = new Set<string>()

  constructor(
    private readonly nft: Nft,
    private readonly plan: RulesetPlan,
  ) {}

  async ensure(guests: readonly GuestNetwork[]): Promise<EnsureResult> {
    const have = await this.#read()
    const index = this.#take(have)
    const change = index.planAll(guests)
    if (this.#isAsMade(have)) return { repairs: describeChange(change), stale: await this.#apply(index, change) }
    const stale = findStaleFlows(change, (id) => index.findValue(id))
    await this.#rebuild(new ElementIndex().planAll(guests))
    return { repairs: [have.exists ? 'nft tables rebuilt' : 'nft tables created'], stale }
  }

  /**
   * Call this when another program has changed the tables. If the change was within `doubtMs` after the tables were
   * created, the stored fingerprint of the tables possibly includes the change. The tables are then created again.
   */
  disturbed(): void {
    if (performance.now() - this.#madeAtMs < doubtMs) this.#doubted = true
  }

  /** Like `ensure`, but trusts the last known state of the tables instead of reading them. */
  async adapt(guests: readonly GuestNetwork[]): Promise<EnsureResult> {
    let repairs: string[] = []
    const planOn = (index: ElementIndex): TableChange => {
      const change = index.planAll(guests)
      repairs = describeChange(change)
      return change
    }
    return { stale: await this.change(planOn, guests), repairs }
  }

  /**
   * Applies a change that is planned from the last known state. If nft refuses the change, another program has changed
   * the tables. This method then repairs the tables with the `known` guests, and plans the change again.
   * @returns flows of replaced or removed elements
   * @throws {CommandError} if nft refuses the change twice
   */
  async change(planOn: (index: ElementIndex) => TableChange, known: readonly GuestNetwork[]): Promise<StaleFlows> {
    const index = this.#index ?? (await this.#mend(known))
    try {
      return await this.#apply(index, planOn(index))
    } catch (cause) {
      if (!(cause instanceof CommandError)) throw cause
      const mended = await this.#mend(known)
      return this.#apply(mended, planOn(mended))
    }
  }

  /**
   * Creates the note chains of the firewalls that `change` has set. The names of these chains contain hashes (see
   * observed.ts). Creating them takes as long as `change`, so callers can do it later. Firewalls without note chains
   * count as changed. @throws {CommandError}
   */
  async noteFirewalls(): Promise<void> {
    const index = this.#index
    const devices = [...this.#unnoted].filter((device) => index?.plannedOf(device))
    this.#unnoted.clear()
    if (index) await this.#note(index, devices)
  }

  /** @returns the bytes that each element has counted, without elements that other programs have removed */
  async readCounted(): Promise<ReadonlyMap<ElementId, number>> {
    const counted = await readCounted(this.plan.table)
    this.#remember(counted)
    return counted
  }

  /** Forgets a guest's counted bytes, so that the counters of the next guest with these addresses start at 0. */
  forgetCounted(guest: GuestNetwork): void {
    for (const id of countersOf(guest)) this.#counted.delete(id)
  }

  async remove(): Promise<void> {
    this.#index = undefined
    this.#unnoted.clear()
    await this.nft.apply([...planTableRemoval(this.plan), ...planWatchRemoval(this.plan.table)])
  }

  async #apply(index: ElementIndex, change: TableChange): Promise<StaleFlows> {
    const stale = findStaleFlows(change, (id) => index.findValue(id))
    await this.nft.apply(this.#commands(index, change))
    for (const id of change.remove) this.#counted.delete(id)
    index.applied(change)
    for (const { device } of change.setFirewalls) this.#unnoted.add(device)
    return stale
  }

  #commands(index: ElementIndex, change: TableChange): string[] {
    return planTableChange(this.plan.table, change, {
      noteOf: (device) => index.noteOf(device),
      countedBy: (id) => (index.findValue(id) === undefined ? (this.#counted.get(id) ?? 0) : 0),
    })
  }

  #isAsMade({ fingerprint, noted }: ObservedTables): boolean {
    return fingerprint === noted && !this.#doubted
  }

  /** Repairs the tables. Elements of guests that are missing in `known` stay, because `known` can be incomplete. */
  async #mend(known: readonly GuestNetwork[]): Promise<ElementIndex> {
    const have = await this.#read()
    if (this.#isAsMade(have)) return this.#take(have)
    const wanted = new ElementIndex().planAll(known)
    const elements = mergeElements([have, ...known.map(planGuest)])
    return this.#rebuild({ ...wanted, add: withoutLostFirewalls(elements, wanted) })
  }

  /** Replaces the tables in one transaction, so that anti-spoofing is always in force. */
  async #rebuild(all: TableChange): Promise<ElementIndex> {
    for (const id of this.#counted.keys()) if (!all.add.has(id)) this.#counted.delete(id)
    const commands = this.#commands(new ElementIndex(), all)
    this.#madeAtMs = Infinity
    this.#doubted = false
    await this.nft.apply([...planTableRemoval(this.plan), ...planRuleset(this.plan), ...commands])
    this.#unnoted.clear()
    const made = await this.#read()
    const planned = new Map(all.setFirewalls.map((chains) => [chains.device, hashFirewall(chains)]))
    const notes = made.notesOf(planned)
    await this.nft.apply([
      fingerprintNote(this.plan.table, made),
      ...[...notes.values()].map((note) => this.#addNote(note)),
    ])
    this.#madeAtMs = performance.now()
    const firewalls = new Map([...notes].map(([device, note]) => [device, { planned: planned.get(device)!, note }]))
    return this.#take({ ...made, firewalls: new Map([...made.firewalls, ...firewalls]) })
  }

  async #note(index: ElementIndex, devices: readonly string[]): Promise<void> {
    if (devices.length === 0) return
    const { table } = this.plan
    const planned = new Map(devices.map((device) => [device, index.plannedOf(device)]))
    const notes = await readFirewallNotes(this.nft, table, planned)
    await this.nft.apply([...notes.values()].map((note) => this.#addNote(note)))
    for (const [device, note] of notes) index.noted(device, note)
  }

  #addNote(note: string): string {
    return `add chain inet ${this.plan.table} ${note}`
  }

  async #read(): Promise<ObservedTables> {
    const have = await readTables(this.nft, this.plan)
    this.#remember(have.counted)
    return have
  }

  #remember(counted: ReadonlyMap<ElementId, number>): void {
    for (const [id, bytes] of counted) this.#counted.set(id, bytes)
  }

  #take(have: ObservedTables): ElementIndex {
    return (this.#index = new ElementIndex(have))
  }
}

/** Replaces jumps to missing chains by `drop`. The new tables have no chains for firewalls whose rules are unknown. */
function withoutLostFirewalls(elements: Map<ElementId, string>, { setFirewalls }: TableChange): TableChange['add'] {
  const made = new Set(setFirewalls.flatMap(({ device }) => [`jump in_${device}`, `jump out_${device}`]))
  return new Map(
    [...elements].map(([id, value]) => [id, value.startsWith('jump ') && !made.has(value) ? 'drop' : value]),
  )
}

function describeChange({ remove, add, setFirewalls, dropFirewalls }: TableChange): string[] {
  const counts = [
    [remove.length, 'nft elements removed'],
    [add.size, 'nft elements added'],
    [setFirewalls.length, 'firewalls set'],
    [dropFirewalls.length, 'firewalls removed'],
  ] as const
  return counts.flatMap(([count, what]) => (count === 0 ? [] : [`${count} ${what}`]))
}
