import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Balancing } from '../../balancing/balancing.js'
import type { Fleet } from '../../fleet/contract.js'
import type { LoadChange, Suggestion } from '../../fleet/move-contract.js'
import { oneOf } from '../../http/schema.js'
import { route, type Route } from '../../http/route.js'
import { AutomaticBalanceSchema, automaticRow } from './automatic-balance.js'
import { balanceSettingRoutes } from './balance-settings.js'

const percent = Type.Union([Type.Integer({ minimum: 0 }), Type.Null()])
const LoadSchema = Type.Object(
  { before: percent, after: percent },
  {
    title: 'LoadChange',
    description:
      'Allocated share of the scarcest resource of the host, in percent of what may be allocated. `null`: not known, because the size of the host is not known.',
  },
)

const SuggestionSchema = Type.Object(
  {
    container_uuid: Type.String(),
    container_name: Type.String(),
    from_host_id: Type.String(),
    to_host_id: Type.String({ description: 'Suggested target. Empty: no host can take the container.' }),
    reason: oneOf(
      ['rule', 'load'],
      '`rule`: the container is on a host that its placement rules forbid. `load`: the move evens out the load of both hosts.',
    ),
    code: Type.String({
      description: 'Code of the broken rule, such as `placement_group`. Empty if `reason` is `load`.',
    }),
    message: Type.String({ description: 'Why no host can take the container. Empty: a host can.' }),
    from_load: LoadSchema,
    to_load: Type.Union([LoadSchema, Type.Null()], {
      description: 'Load of the target. `null`: there is no target.',
    }),
  },
  { title: 'BalanceSuggestion' },
)
type SuggestionRow = Static<typeof SuggestionSchema>

interface Parts {
  readonly fleet: Fleet
  readonly balancing: Balancing
  readonly time: TimeFormat
}

export function balanceRoutes(parts: Parts): Route[] {
  return [balanceRoute(parts), automaticBalanceRoute(parts), ...balanceSettingRoutes(parts)]
}

const common = { method: 'GET', scope: 'host:read', bound: 'refused', tag: 'Hosts' } as const

function balanceRoute({ fleet }: Parts): Route {
  return route({
    ...common,
    path: '/fleet/balance',
    name: 'getFleetBalance',
    summary:
      'Suggests moves of containers that fulfill broken placement rules or even out the load of the hosts. Nothing is moved. Each suggestion assumes that the earlier ones are carried out',
    data: Type.Array(SuggestionSchema),
    handle: async () => ({ data: (await fleet.relocation.moves.suggest()).map(rowOf) }),
  })
}

function automaticBalanceRoute({ fleet, balancing, time }: Parts): Route {
  return route({
    ...common,
    path: '/fleet/balance/automatic',
    name: 'getAutomaticBalance',
    summary: 'Returns what automatic balancing has done, and why it waits',
    data: AutomaticBalanceSchema,
    handle: () => ({ data: automaticRow(balancing.statusOf(fleet), time) }),
  })
}

function rowOf({ guest: { guest, hostId }, toHostId, reason, code, message, from, to }: Suggestion): SuggestionRow {
  return {
    container_uuid: guest.uuid,
    container_name: guest.name,
    from_host_id: hostId,
    to_host_id: toHostId,
    reason,
    code,
    message,
    from_load: loadRow(from),
    to_load: to ? loadRow(to) : null,
  }
}

/** The load of a host of unknown size is not a finite number. */
export function loadRow({ before, after }: LoadChange): Static<typeof LoadSchema> {
  const inPercent = (share: number): number | null =>
    Number.isFinite(share) ? Math.max(0, Math.round(share * 100)) : null
  return { before: inPercent(before), after: inPercent(after) }
}
