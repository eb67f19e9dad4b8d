import { countedWays, type CounterName, type ElementId } from './plan-guest.js'
import { guestSets } from './ruleset/guest-sets.js'

/** All tables' text, taken apart: what is the same for all guests, and what is theirs. */
export interface ParsedTables {
  /** Without the contents of sets that change and without guests' firewalls and counters. */
  readonly structure: string
  readonly elements: ReadonlyMap<ElementId, string>
  /** Bytes by counter. */
  readonly counted: ReadonlyMap<CounterName, number>
  /** Guests' chains as printed, by name. */
  readonly chains: ReadonlyMap<string, string>
}

const connections = ['outbound', 'inbound', 'inbound6']
const dynamicSets = ['pings', 'pings6', ...connections, ...connections.map((name) => `${name}_full`)]
const variableNames = [...Object.keys(guestSets), ...dynamicSets]
const variableSet = new RegExp(
  String.raw`^\t(?:set|map) (?<name>${variableNames.join('|')}) \{\n` +
    String.raw`(?<head>[^}]*?)(?:\t\telements = \{(?<body>[^}]*)\}\n)?\t\}$`,
  'gm',
)
const guestChain =
  /^\tchain (?<name>(?:in|out|note)_[a-z]{1,4}\d{1,10}(?:_[0-9a-f]+)?) \{\n(?<body>(?:\t\t.*\n)*)\t\}\n/gm
const guestCounter = new RegExp(
  String.raw`^\tcounter (?<name>(?:${countedWays.join('|')})_[a-z]{1,4}\d{1,10}) \{\n` +
    String.raw`\t\tpackets \d+ bytes (?<bytes>\d+)\n\t\}\n`,
  'gm',
)

/** The output of `nft -n list table` of one or more tables. */
export function parseTables(text: string): ParsedTables {
  const elements = new Map<ElementId, string>()
  const counted = new Map<CounterName, number>()
  const chains = new Map<string, string>()
  let structure = ''
  let end = 0
  for (const match of text.matchAll(variableSet)) {
    const { name = '', head = '', body = '' } = match.groups ?? {}
    if (name in guestSets) parseSet(name, body, elements)
    structure += `${text.slice(end, match.index)}\tset ${name} {\n${head}\t}`
    end = match.index + match[0].length
  }
  const counters = (_: string, name: CounterName, bytes: string): string => {
    counted.set(name, Number(bytes))
    return ''
  }
  const rest = (structure + text.slice(end))
    .replace(guestChain, (_, name: string, body: string) => {
      chains.set(name, body)
      return ''
    })
    .replace(guestCounter, counters)
  return { structure: rest.replace(/\n{2,}/g, '\n'), elements, counted, chains }
}

function parseSet(name: string, body: string, elements: Map<ElementId, string>): void {
  for (const element of body.split(',').map(oneBlank).filter(Boolean)) {
    const [key = '', value = ''] = element.split(' : ')
    elements.set(`${name} ${key}` as ElementId, value)
  }
}

function oneBlank(text: string): string {
  return text.trim().replace(/\s+/g, ' ')
}
