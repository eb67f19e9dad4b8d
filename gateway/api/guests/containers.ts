import { Type } from 'typebox'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { CompactRowSchema, GuestRowSchema } from './guest-row.js'
import { GuestListQuery, guestSortable, type GuestPages } from './guest-pages.js'
import type { Principal } from '../../access/principal.js'
import { route, type Answer, type Route } from '../../http/route.js'

export const ContainerPathSchema = Type.Object({
  id: Type.String({ maxLength: 64, description: 'Numeric id, UUID or name of the container.' }),
})

const UsageSchema = Type.Object(
  {
    cpu_usage_pct: Type.Number(),
    cpu_usage_usec: Type.Integer(),
    memory_usage_bytes: Type.Integer(),
    disk_usage_bytes: Type.Integer({
      description:
        'Disk space in bytes that counts towards the disk size (`disk_gb`). When it reaches the disk size, writes fail. The value is at most a few seconds old. LXC containers: the data of the container, without the image, which all containers share. Virtual machines: the usage of their file systems, including the system; without a guest agent, all blocks of the disk that were ever written. `GET /containers/{id}/history` returns the same value for each minute.',
    }),
    network_rx_bytes: Type.Integer(),
    network_tx_bytes: Type.Integer(),
    load1: Type.Number(),
    load5: Type.Number(),
    load15: Type.Number(),
  },
  { title: 'ContainerUsage' },
)

export interface ContainerDeps {
  readonly fleet: Fleet
  readonly pages: GuestPages
}

export function containerRoutes(deps: ContainerDeps): Route[] {
  const compact = {
    path: '/containers/list',
    subUser: 'allowed',
    scope: 'container:read',
    bound: 'own',
    tag: 'Containers',
    query: GuestListQuery,
    sortable: guestSortable,
    data: Type.Array(CompactRowSchema),
    handle: ({ caller, query }: { caller: Principal; query: object }) => deps.pages.compactList(caller, query),
  } as const
  return [
    route({
      method: 'GET',
      path: '/containers',
      name: 'listContainers',
      subUser: 'allowed',
      sortable: guestSortable,
      scope: 'container:read',
      bound: 'own',
      tag: 'Containers',
      summary: 'Lists the containers, in the order of their ids',
      query: GuestListQuery,
      data: Type.Array(GuestRowSchema),
      handle: ({ caller, query }) => deps.pages.fullList(caller, query),
    }),
    route({
      ...compact,
      method: 'GET',
      name: 'listContainerSummaries',
      summary: 'Lists the containers in short form',
    }),
    route({
      ...compact,
      method: 'POST',
      name: 'listContainerSummariesByPost',
      audit: false,
      summary: 'Lists the containers in short form, for older clients',
    }),
    route({
      method: 'GET',
      path: '/containers/{id}',
      name: 'getContainer',
      subUser: 'allowed',
      scope: 'container:read',
      bound: 'guest',
      tag: 'Containers',
      summary: 'Returns a container',
      params: ContainerPathSchema,
      data: GuestRowSchema,
      handle: ({ caller, guest }) => deps.pages.detail(caller, guest),
    }),
    route({
      method: 'GET',
      path: '/containers/{id}/usage',
      name: 'getContainerUsage',
      subUser: 'allowed',
      scope: 'container:read',
      bound: 'guest',
      tag: 'Containers',
      summary: 'Returns the last measured resource usage of a container',
      params: ContainerPathSchema,
      data: UsageSchema,
      errors: ['host_offline', 'agent_timeout'],
      handle: ({ guest }) => readUsage(deps.fleet, guest),
    }),
  ]
}

async function readUsage(fleet: Fleet, { hostId, guest }: GuestView): Promise<Answer<UsageRow>> {
  const usage = await fleet.agent(hostId).guests.getGuestUsage({ uuid: guest.uuid })
  return {
    data: {
      cpu_usage_pct: usage.cpuUsagePct,
      cpu_usage_usec: usage.cpuUsageUsec,
      memory_usage_bytes: usage.memoryUsageBytes,
      disk_usage_bytes: usage.diskUsageBytes,
      network_rx_bytes: usage.networkRxBytes,
      network_tx_bytes: usage.networkTxBytes,
      load1: usage.load1,
      load5: usage.load5,
      load15: usage.load15,
    },
  }
}

type UsageRow = Record<keyof (typeof UsageSchema)['properties'], number>
