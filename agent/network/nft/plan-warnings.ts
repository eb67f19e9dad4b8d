/** A chain of another program that possibly drops guests' packets. */
export interface ForeignChain {
  readonly family: 'ip' | 'ip6' | 'inet'
  readonly table: string
  readonly chain: string
}

/** Finds base chains at the forward hook in the output of `nft list chains`, except those of the agent's own tables. */
export function parseForwardChains(text: string, ownTables: readonly string[]): ForeignChain[] {
  const found: ForeignChain[] = []
  for (const [, family = '', table = '', body = ''] of text.matchAll(/^table (\w+) (\S+) \{\n([^]*?)^\}$/gm)) {
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

/** Splits a table into the lines of each chain, by name. A base chain's first line contains its hook and policy. */
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

/** Direction of a packet, as the nft keyword before the bridge's name: `iifname` from guests, `oifname` to guests. */
type Way = 'iifname' | 'oifname'
/** Fate of a packet in a chain. `none`: the chain neither accepts nor drops it. */
type Verdict = 'accept' | 'drop' | 'none'

/**
 * True if a base chain drops all packets from or to the bridge, by its policy or by a rule. Ignores rules that match
 * only some packets, such as those of established connections.
 * @param tableText the table as nft prints it
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
  /** Chain in the rule's `jump` or `goto`. Empty: the rule has neither. */
  readonly target: string
  readonly verdict: Verdict
  /** True if a packet to which the rule applies skips all further rules of the chain. */
  readonly ends: boolean
}

/** @returns undefined for a rule that matches only some packets or has no verdict */
function parseRule(line: string): Rule | undefined {
  const [, conditions = '', action, target = ''] = rulePattern.exec(withoutSideEffects(line)) ?? []
  if (action === undefined) return undefined
  return { conditions, target, verdict: verdicts[action] ?? 'drop', ends: !action.startsWith('jump') }
}

const verdicts: Readonly<Record<string, Verdict>> = { accept: 'accept', return: 'none' }

/** Matches a rule that has a verdict, and that compares nothing except interface names. */
const rulePattern =
  /^((?:[io]ifname (?:!= )?(?:"[^"]*"|\{[^}]*\}) )*)(accept|drop|reject\b.*|xt target "REJECT"|return|(?:jump|goto) (\S+))$/

function withoutSideEffects(line: string): string {
  return line
    .replace(/ comment ".*"$/, '')
    .replace(/(?:^|(?<= ))log (?:(?:prefix "[^"]*"|(?:level|group|snaplen|queue-threshold) \S+|flags \S+ \S+) ?)*/, '')
    .replace(/counter packets \d+ bytes \d+ /, '')
}

function isMet(conditions: string, { way, bridge }: GuestPacket): boolean {
  return [...conditions.matchAll(/([io]ifname) (!= )?("[^"]*"|\{[^}]*\})/g)].every(([, key, not, names = '']) => {
    const isBridge = [...names.matchAll(/"([^"]*)"/g)].some(([, name = '']) =>
      name.endsWith('*') ? bridge.startsWith(name.slice(0, -1)) : name === bridge,
    )
    return (key === way && isBridge) !== Boolean(not)
  })
}

/** Describes a chain of another program that drops guests' packets. No rule of the agent can prevent this. */
export function describeDropping({ family, table, chain }: ForeignChain, bridge: string): string {
  return (
    `nft table ${family} ${table}, chain ${chain}, drops forwarded packets that it does not accept, including those of ` +
    `guests: accept packets from and to the interface ${bridge} in this chain (Docker: in the chain DOCKER-USER; ` +
    'firewalld: with a zone for the interface that has the target ACCEPT, and a policy that accepts packets to this zone)'
  )
}

/**
 * Returns a warning about iptables' legacy tables, whose filters nft does not list.
 * @param tables content of /proc/net/ip_tables_names; empty if no such table exists
 */
export function describeLegacy(program: 'iptables' | 'ip6tables', tables: string, bridge: string): string[] {
  const names = tables.split('\n').filter(Boolean)
  if (names.length === 0) return []
  return [
    `${program}-legacy has tables (${names.join(', ')}), which are not checked: if ${program}-legacy -S FORWARD shows that they drop unknown packets, accept packets from and to the interface ${bridge} in the chain FORWARD`,
  ]
}

/**
 * Describes the effect of bridge-nf-call-iptables: bridged packets pass the IP hooks. A guest's packet to its own
 * mapped port then stays on the bridge. The packet is lost, because bridges never send a packet back to where it came
 * from.
 */
export function describeBridgeFilter(setting: string): string {
  return `${setting} is 1: a guest cannot reach its own mapped ports at the address of the host, but others can`
}
