import { readCountedElements } from '../../../host/net/counted-elements.js'
import type { Nft } from '../../../host/net/nft.js'
import { shortHash, type HeldFirewall, type HeldGuests } from './element-index.js'
import { parseTables, type ParsedTables } from './parse-tables.js'
import { formatNumber, type ElementId } from './plan-guest.js'
import { planRuleset, type RulesetPlan } from './plan-ruleset.js'
import { countingSets, families } from '../ruleset/guest-sets.js'

/*
 * nft prints rules in its own form, which changes between versions. The agent therefore hashes nft's output right after
 * it has created the rules. A different hash shows a change. The name of an empty chain (note chain) contains the hash.
 */

export interface ObservedTables extends HeldGuests {
  readonly exists: boolean
  /** Hash of the planned rules and of nft's present output for the tables, without guests' elements and chains. */
  readonly fingerprint: string
  /** Fingerprint that was stored in nft when the tables were created. Undefined: nft contains no fingerprint. */
  readonly noted: string | undefined
  /** Bytes that each element has counted, in the sets that count traffic. */
  readonly counted: ReadonlyMap<ElementId, number>
  /**
   * Returns, for each device with a firewall, the correct name of the chain that identifies the firewall.
   * @param planned hashes of the rules from which the firewalls were created, by device
   */
  notesOf(planned: ReadonlyMap<string, string>): Map<string, string>
}

const noteChain = /\n\tchain fingerprint_([0-9a-f]{16}) \{\n\t\}(?=\n)/g

export async function readTables(nft: Nft, plan: RulesetPlan): Promise<ObservedTables> {
  const texts = await Promise.all(families.map(async (family) => (await nft.readTable(family, plan.table)) ?? ''))
  const parsed = parseTables(texts.join(''))
  const notes = [...parsed.structure.matchAll(noteChain)].map(([, hash]) => hash)
  return {
    exists: texts.some((text) => text !== ''),
    fingerprint: shortHash(planRuleset(plan).join('\n') + parsed.structure.replace(noteChain, '')),
    noted: notes.length === 1 ? notes[0] : undefined,
    elements: parsed.elements,
    counted: parsed.counted,
    firewalls: compareFirewalls(parsed),
    notesOf: (planned) => notesOf(parsed, planned),
  }
}

/** @returns counted bytes by element; empty if the tables are missing */
export async function readCounted(table: string): Promise<Map<ElementId, number>> {
  const elements = await readCountedElements(table, countingSets)
  return new Map(elements.map(({ set, key, bytes }) => [`${set} ${keyTexts[set](key)}` as ElementId, bytes]))
}

/** For each counting set: converts a key from the kernel's binary form to the text that nft prints. */
const keyTexts = {
  received: (key) => formatNumber(key.readUInt32LE()),
  sent: (key) => [...key].map((byte) => byte.toString(16).padStart(2, '0')).join(':'),
} satisfies Record<(typeof countingSets)[number], (key: Buffer) => string>

/** Returns the nft command that stores the tables' fingerprint in the name of an empty chain. */
export function fingerprintNote(table: string, { fingerprint }: ObservedTables): string {
  return `add chain inet ${table} fingerprint_${fingerprint}`
}

/** Largest number of firewalls whose chains are read separately. For more, reading the whole table is cheaper. */
const maxSingle = 4

/** Reads the chains of the firewalls in `planned` from the host. Returns the same map as `ObservedTables.notesOf`. */
export async function readFirewallNotes(
  nft: Nft,
  table: string,
  planned: ReadonlyMap<string, string>,
): Promise<Map<string, string>> {
  const chains = [...planned.keys()].flatMap((device) => [`in_${device}`, `out_${device}`])
  const parts = chains.map((name) => `chain inet ${table} ${name}`)
  const text = planned.size > maxSingle ? await nft.readTable('inet', table) : await readAll(nft, parts)
  return notesOf(parseTables(text ?? ''), planned)
}

function notesOf(parsed: ParsedTables, planned: ReadonlyMap<string, string>): Map<string, string> {
  const made = [...planned].filter(([device]) => parsed.chains.has(`in_${device}`))
  return new Map(made.map(([device, hash]) => [device, noteOf(parsed, device, hash)]))
}

/** Lists chains with one command each, because nft 1.0.6 does not find the second of two chains in one command. */
async function readAll(nft: Nft, parts: readonly string[]): Promise<string | undefined> {
  const texts: string[] = []
  for (const part of parts) {
    const text = await nft.readPart(part)
    if (text === undefined) return undefined
    texts.push(text)
  }
  return texts.join('')
}

function noteOf({ chains }: ParsedTables, device: string, planned: string): string {
  const printed = shortHash(`${chains.get(`in_${device}`)}\n${chains.get(`out_${device}`)}`)
  return `note_${device}_${planned}${printed}`
}

/** Returns each device's firewall. `planned` is '' if nft's present output does not match the note chain's name. */
function compareFirewalls(parsed: ParsedTables): Map<string, HeldFirewall> {
  const firewalls = new Map<string, HeldFirewall>()
  for (const name of parsed.chains.keys()) {
    const [kind, device = '', hashes = ''] = name.split('_')
    const held = firewalls.get(device)
    if (kind !== 'note') firewalls.set(device, held ?? { planned: '', note: undefined })
    else {
      const planned = hashes.slice(0, 16)
      const right = name === noteOf(parsed, device, planned)
      firewalls.set(device, { planned: right ? planned : '', note: name })
    }
  }
  return firewalls
}
