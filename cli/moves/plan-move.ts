/* This module creates texts about the move of a guest, from the plan that the API returns. */

interface Change {
  readonly from: string
  readonly to: string
}

export interface MovePlan {
  readonly task_id: string
  readonly container_name: string
  readonly from_host_id: string
  readonly to_host_id: string
  readonly public_ipv4s: readonly Change[]
  readonly ipv6_addresses: readonly Change[]
  readonly port_mappings: readonly {
    readonly protocol: string
    readonly container_port: number
    readonly from_host_port: number
    readonly to_host_port: number
  }[]
  readonly shuts_down: boolean
  /** True if the guest keeps running. Undefined: an older gateway, which moves only stopped virtual machines. */
  readonly live?: boolean
  readonly stays_behind: readonly string[]
}

/** Returns the plan in sentences. @param nameOf returns the name of a host */
export function moveSentences(plan: MovePlan, nameOf: (hostId: string) => string): string[] {
  const { container_name: name, from_host_id: from, to_host_id: to, stays_behind: left } = plan
  return [
    `Guest ${name} moves from host ${nameOf(from)} to host ${nameOf(to)}.`,
    ...(plan.shuts_down ? ['It is shut down while its whole disk is copied.'] : []),
    ...(plan.live ? ['It keeps running, and is paused only briefly.'] : []),
    ...plan.public_ipv4s.flatMap((change) => changeSentence('public IPv4 address', change)),
    ...plan.ipv6_addresses.flatMap((change) => changeSentence('IPv6 address', change)),
    ...plan.port_mappings.map(portSentence),
    ...(left.length > 0 ? [`Not moved: ${left.map((one) => one.replaceAll('_', ' ')).join(', ')}.`] : []),
  ]
}

function changeSentence(kind: string, { from, to }: Change): string[] {
  if (from === to) return []
  return [to === '' ? `It loses the ${kind} ${from}.` : `Its ${kind} changes from ${from} to ${to}.`]
}

function portSentence(mapping: MovePlan['port_mappings'][number]): string {
  const { protocol, container_port: own, from_host_port: from, to_host_port: to } = mapping
  const place = `Its ${protocol} port ${own}`
  return from === to
    ? `${place} keeps the host port ${from}, at the address of the new host.`
    : `${place} changes from host port ${from} to ${to}, at the address of the new host.`
}
