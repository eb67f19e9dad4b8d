import type { HostView } from '../fleet/contract.js'
import type { FleetChange } from '../fleet/fleet-changes.js'
import type { HostPosition } from '../fleet/host-position.js'

type HostChange = Extract<FleetChange, { kind: 'host' }>

/**
 * Returns the changes of hosts that happened while no gateway process ran.
 * @param former states of hosts, by id, that the previous gateway process passed to clients
 */
export function planHostNews(former: ReadonlyMap<string, HostPosition>, hosts: readonly HostView[]): HostChange[] {
  const present = new Set(hosts.map(({ id }) => id))
  const removed = [...former.values()].filter(({ id }) => !present.has(id))
  return [
    ...removed.map((host): HostChange => ({ kind: 'host', before: viewOf(host) })),
    ...hosts.flatMap((after) => newsOf(former.get(after.id), after)),
  ]
}

/** Returns the change from which a client learns the present state of this gateway's connection to a host. */
export function withConnection(host: HostView, isOnline: boolean): HostChange {
  const [before, after] = isOnline ? (['offline', 'online'] as const) : (['online', 'offline'] as const)
  return { kind: 'host', before: { ...host, state: before }, after: { ...host, state: after } }
}

function newsOf(former: HostPosition | undefined, after: HostView): HostChange[] {
  if (former === undefined) return [{ kind: 'host', after }]
  const isSame = former.name === after.name && former.online === (after.state === 'online')
  const state = former.online ? 'online' : after.state === 'online' ? 'offline' : after.state
  return isSame ? [] : [{ kind: 'host', before: { ...after, name: former.name, state }, after }]
}

/** View of a removed host, of which only id, name and connection are known. */
function viewOf({ id, name, online }: HostPosition): HostView {
  return {
    id,
    name,
    address: '',
    install: undefined,
    joinToken: 'none',
    upgrade: undefined,
    state: online ? 'online' : 'offline',
    draining: false,
    drained: undefined,
    maintenance: [],
    group: '',
    labels: [],
    publicAddress: { host: '', source: 'none' },
    createdAtMs: 0,
    lastSeenMs: 0,
    certificateNotAfterMs: 0,
    warnings: [],
    fenced: 0,
    outdated: false,
    description: undefined,
    metrics: undefined,
  }
}
