/** A chain of another program that drops what it forwards and does not know. */
export interface ForeignChain {
  readonly family: 'ip' | 'ip6' | 'inet'
  readonly table: string
  readonly chain: string
}

/** From the output of `nft list chains`: base chains at the forward hook whose policy is drop, but our own. */
export function parseDroppingChains(text: string, ownTable: string): ForeignChain[] {
  const found: ForeignChain[] = []
  for (const [, family = '', table = '', body = ''] of text.matchAll(
    /^table (\w+) (\S+) \{\n([^]*?)^\}$/gm,
  )) {
    if (table === ownTable || !isRouting(family)) continue
    for (const [, chain = '', head = ''] of body.matchAll(/^\tchain (\S+) \{\n([^}]*)\t\}$/gm))
      if (/hook forward\b.*policy drop/.test(head)) found.push({ family, table, chain })
  }
  return found
}

function isRouting(family: string): family is ForeignChain['family'] {
  return ['ip', 'ip6', 'inet'].includes(family)
}

/** Whether the table has rules that accept what comes from the bridge and what goes there. */
export function letsThrough(tableText: string, bridge: string): boolean {
  return ['iifname', 'oifname'].every((match) =>
    new RegExp(`^\\s+${match} "${bridge}" (?:counter packets \\d+ bytes \\d+ )?accept$`, 'm').test(tableText),
  )
}

/** Nothing that we accept overrides another chain's drop: its owner has to. */
export function describeDropping({ family, table, chain }: ForeignChain, bridge: string): string {
  return (
    `nft table ${family} ${table}, chain ${chain}, drops forwarded packets it does not accept, guests' among ` +
    `them: accept interface ${bridge} there, in and out (Docker: in the chain DOCKER-USER)`
  )
}

/** Bridged packets then meet the IP hooks: what a guest sends to itself would leave by the port it came from. */
export function describeBridgeFilter(setting: string): string {
  return `${setting} is 1: a guest does not reach its own mapped ports by the host's address, others do`
}
