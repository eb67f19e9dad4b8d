/** A chain of another program that drops what guests send or are sent. */
export interface ForeignChain {
  readonly family: 'ip' | 'ip6' | 'inet'
  readonly table: string
  readonly chain: string
}

/** From the output of `nft list chains`: base chains at the forward hook, but those of our own tables. */
export function parseForwardChains(text: string, ownTables: readonly string[]): ForeignChain[] {
  const found: ForeignChain[] = []
  for (const [, family = '', table = '', body = ''] of text.matchAll(
    /^table (\w+) (\S+) \{\n([^]*?)^\}$/gm,
  )) {
    if (ownTables.includes(table) || !isRouting(family)) continue
    for (const [chain, rules] of parseChains(body))
      if (/type filter hook forward\b/.test(rules[0] ?? '')) found.push({ family, table, chain })
  }
  return found
}

function isRouting(family: string): family is ForeignChain['family'] {
  return ['ip', 'ip6', 'inet'].includes(family)
}

type Chains = ReadonlyMap<string, readonly string[]>

/** Lines of each chain; of a base chain the first is its head. */
function parseChains(text: string): Chains {
  const chains = text.matchAll(/^\tchain (\S+) \{\n([^]*?)^\t\}$/gm)
  return new Map(
    [...chains].map(([, name = '', body = '']) => [
      name,
      body
        .split('\n')
        .map((line) => line.trim().replace(/\s+/g, ' '))
        .filter(Boolean),
    ]),
  )
}

/** A packet of a guest, of which nothing is known but that; the other device is any. */
type Way = 'iifname' | 'oifname'
/** `none`: the packet is through the chain. */
type Verdict = 'accept' | 'drop' | 'none'

/**
 * Whether a base chain drops what comes from the bridge or goes there, by its policy or a rule for all of it; rules for
 * some packets alone, as for those of established connections, decide nothing.
 * @param tableText as nft prints the table
 */
export function dropsGuests(tableText: string, chain: string, bridge: string): boolean {
  const chains = parseChains(tableText)
  const policy: Verdict = /policy drop/.test(chains.get(chain)?.[0] ?? '') ? 'drop' : 'accept'
  return (['iifname', 'oifname'] as const).some((way) => {
    const verdict = judge(chains, chain, { way, bridge })
    return (verdict === 'none' ? policy : verdict) === 'drop'
  })
}

interface GuestPacket {
  readonly way: Way
  readonly bridge: string
}

function judge(chains: Chains, chain: string, packet: GuestPacket): Verdict {
  for (const line of chains.get(chain) ?? []) {
    const rule = parseRule(line)
    if (!rule || !isMet(rule.conditions, packet)) continue
    const verdict = rule.target === '' ? rule.verdict : judge(chains, rule.target, packet)
    if (verdict !== 'none' || rule.ends) return verdict
  }
  return 'none'
}

interface Rule {
  readonly conditions: string
  /** Chain that is jumped or gone to; empty: none. */
  readonly target: string
  readonly verdict: Verdict
  /** Whoever meets it does not come to the next one. */
  readonly ends: boolean
}

/** @returns undefined for what is for some packets alone, or decides nothing */
function parseRule(line: string): Rule | undefined {
  const [, conditions = '', action, target = ''] = rulePattern.exec(withoutSideEffects(line)) ?? []
  if (action === undefined) return undefined
  return { conditions, target, verdict: verdicts[action] ?? 'drop', ends: !action.startsWith('jump') }
}

const verdicts: Readonly<Record<string, Verdict>> = { accept: 'accept', return: 'none' }

/** What nothing but devices may stand before. */
const rulePattern =
  /^((?:[io]ifname (?:!= )?(?:"[^"]*"|\{[^}]*\}) )*)(accept|drop|reject\b.*|xt target "REJECT"|return|(?:jump|goto) (\S+))$/

function withoutSideEffects(line: string): string {
  return line
    .replace(/ comment ".*"$/, '')
    .replace(
      /(?:^|(?<= ))log (?:(?:prefix "[^"]*"|(?:level|group|snaplen|queue-threshold) \S+|flags \S+ \S+) ?)*/,
      '',
    )
    .replace(/counter packets \d+ bytes \d+ /, '')
}

function isMet(conditions: string, { way, bridge }: GuestPacket): boolean {
  return [...conditions.matchAll(/([io]ifname) (!= )?("[^"]*"|\{[^}]*\})/g)].every(
    ([, key, not, names = '']) => {
      const isBridge = [...names.matchAll(/"([^"]*)"/g)].some(([, name = '']) =>
        name.endsWith('*') ? bridge.startsWith(name.slice(0, -1)) : name === bridge,
      )
      return (key === way && isBridge) !== Boolean(not)
    },
  )
}

/** Nothing that we accept overrides another chain's drop: its owner has to. */
export function describeDropping({ family, table, chain }: ForeignChain, bridge: string): string {
  return (
    `nft table ${family} ${table}, chain ${chain}, drops forwarded packets it does not accept, guests' among ` +
    `them: accept interface ${bridge} there, in and out (Docker: in the chain DOCKER-USER; firewalld: by a zone of its ` +
    `own with the target ACCEPT, and a policy that accepts what goes to it)`
  )
}

/** What these filter nft does not list. @param tables as in /proc/net/ip_tables_names, which is empty without any */
export function describeLegacy(program: 'iptables' | 'ip6tables', tables: string, bridge: string): string[] {
  const names = tables.split('\n').filter(Boolean)
  if (names.length === 0) return []
  return [
    `${program}-legacy has tables (${names.join(', ')}), which are not looked into: if ${program}-legacy -S FORWARD ` +
      `shows that they drop what they do not know, accept interface ${bridge} there, in and out`,
  ]
}

/** Bridged packets then meet the IP hooks: what a guest sends to itself would leave by the port it came from. */
export function describeBridgeFilter(setting: string): string {
  return `${setting} is 1: a guest does not reach its own mapped ports by the host's address, others do`
}
