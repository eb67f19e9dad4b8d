import { X509Certificate } from 'node:crypto'
import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { gatewaysAwaited, hostsMissing } from '../../rotation/plan-rotation.js'
import { rotationStates, type Rotation, type RotationHost } from '../../rotation/rotation.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'

const missingReasons = ['in_progress', 'offline', 'outdated', 'upgrading', 'must_join'] as const
const MissingHostSchema = Type.Object({
  host_id: Type.String(),
  name: Type.String(),
  status: oneOf(['online', 'offline', 'pending']),
  excluded: Type.Boolean({ description: '`true`: the rotation does not wait for this host.' }),
  reason: oneOf(
    missingReasons,
    'Why the host has not confirmed yet. `outdated`: its agent must be upgraded first. `upgrading`: its agent is being upgraded. `must_join`: it must join again.',
  ),
})
const RotationSchema = Type.Object({
  state: oneOf(
    ['none', ...rotationStates],
    '`distributing`: gateways and hosts learn to trust the new certificate authority. `reissuing`: hosts get certificates of the new authority. `ready`: the replacement waits for `finish`. `ending`: hosts end their trust in the old authority. `ended`, `canceled`: nothing happens any more.',
  ),
  fingerprint: Type.String({ description: 'SHA-256 of the new certificate authority.' }),
  not_after: timeSchema('the new certificate authority expires', 'there is no new one'),
  finishing: Type.Boolean({
    description: '`true`: the replacement ends as soon as all hosts and gateways have confirmed.',
  }),
  hosts: Type.Integer({ minimum: 0, description: 'Number of hosts with a certificate.' }),
  missing_hosts: Type.Array(MissingHostSchema, {
    description: 'Hosts that have not confirmed the present state. After the end: hosts that must join again.',
  }),
  missing_gateways: Type.Array(Type.Object({ id: Type.String(), name: Type.String() }), {
    description:
      'Gateways that have not confirmed the present `state` of the rotation. If a gateway will not return, remove it: `DELETE /gateways/{id}`.',
  }),
  started_by: Type.String(),
  started_at: timeSchema('the replacement began', 'none was ever started'),
  ended_at: timeSchema('the replacement ended', 'it has not ended'),
})
const CaSchema = Type.Object(
  {
    fingerprint: Type.String({ description: 'SHA-256 of the certificate authority of the fleet.' }),
    not_after: timeSchema('the certificate authority expires'),
    rotation: RotationSchema,
  },
  { title: 'FleetCa' },
)
const FinishBodySchema = Type.Object(
  {
    without_hosts: Type.Optional(
      Type.Array(Type.String({ maxLength: 64 }), {
        maxItems: 1000,
        description:
          'Ids of hosts for which the rotation no longer waits. If such a host has not confirmed before the end, it must join again.',
      }),
    ),
  },
  { title: 'FinishCaRotation' },
)

interface Parts {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

const common = { bound: 'refused', tag: 'Gateways', data: CaSchema } as const
const change = { ...common, method: 'POST', scope: '*', confirmed: true, statuses: [202] } as const

export function fleetCaRoutes(parts: Parts): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path: '/fleet/ca',
      name: 'getFleetCa',
      scope: 'host:read',
      summary: 'Returns the certificate authority of the fleet and the state of its replacement',
      handle: () => ({ data: caRow(parts) }),
    }),
    beginRoute(parts),
    finishRoute(parts),
    cancelRoute(parts),
  ]
}

function beginRoute(parts: Parts): Route {
  return route({
    ...change,
    path: '/fleet/ca/rotation',
    name: 'rotateFleetCa',
    audit: 'fleet.rotate_ca',
    summary:
      'Begins to replace the certificate authority. Hosts and gateways trust both until the replacement is finished. Containers are not affected',
    errors: ['rotation_running', 'rotation_unsupported', 'clock_in_doubt'],
    handle: async (context) => {
      const { operationId, caller } = context
      const { to } = await parts.fleet.rotation.begin({ id: operationId, startedBy: caller.user })
      context.audit({ target: to })
      return { status: 202, message: 'the replacement of the certificate authority has started', data: caRow(parts) }
    },
  })
}

function finishRoute(parts: Parts): Route {
  return route({
    ...change,
    path: '/fleet/ca/rotation/finish',
    name: 'finishFleetCaRotation',
    audit: 'fleet.rotate_ca_finish',
    summary:
      'Ends the trust in the old certificate authority as soon as all hosts and gateways have confirmed the new one',
    body: FinishBodySchema,
    example: { without_hosts: [] },
    errors: ['invalid_state'],
    handle: async (context) => {
      const { without_hosts: without = [] } = context.body
      const { to } = await parts.fleet.rotation.finish(without)
      context.audit({ target: to, detail: without.length === 0 ? '' : `without ${without.join(', ')}` })
      return {
        status: 202,
        message: 'the replacement of the certificate authority is being finished',
        data: caRow(parts),
      }
    },
  })
}

function cancelRoute(parts: Parts): Route {
  return route({
    ...change,
    path: '/fleet/ca/rotation/cancel',
    name: 'cancelFleetCaRotation',
    audit: 'fleet.rotate_ca_cancel',
    summary: 'Cancels the replacement of the certificate authority. Only possible in the state `distributing`',
    errors: ['invalid_state'],
    handle: async (context) => {
      const { to } = await parts.fleet.rotation.cancel()
      context.audit({ target: to })
      return { status: 202, message: 'the replacement of the certificate authority is canceled', data: caRow(parts) }
    },
  })
}

function caRow({ fleet, time }: Parts): Static<typeof CaSchema> {
  const { authority, current } = fleet.rotation
  const { fingerprint, notAfterMs } = authority.first
  return {
    fingerprint,
    not_after: time.format(notAfterMs),
    rotation: current ? rotationRow(current, { fleet, time }) : noRotation,
  }
}

const noRotation: Static<typeof RotationSchema> = {
  state: 'none',
  fingerprint: '',
  not_after: '',
  finishing: false,
  hosts: 0,
  missing_hosts: [],
  missing_gateways: [],
  started_by: '',
  started_at: '',
  ended_at: '',
}

function rotationRow(rotation: Rotation, { fleet, time }: Parts): Static<typeof RotationSchema> {
  const { state, to, toPem, finishing, startedBy, startedAtMs, endedAtMs } = rotation
  const facts = fleet.rotation.facts()
  return {
    state,
    fingerprint: to,
    not_after: time.format(Date.parse(new X509Certificate(toPem).validTo)),
    finishing,
    hosts: facts.hosts.filter(({ joined }) => joined).length,
    missing_hosts: hostsMissing(rotation, facts.hosts).map((host) => missingRow(host, rotation, fleet)),
    missing_gateways: gatewaysAwaited(rotation, facts.gateways).map(({ id, name }) => ({ id, name })),
    started_by: startedBy,
    started_at: time.format(startedAtMs),
    ended_at: time.format(endedAtMs),
  }
}

function missingRow(host: RotationHost, rotation: Rotation, fleet: Fleet): Static<typeof MissingHostSchema> {
  const { id, name } = host
  const status = fleet.view.findHost(id)?.state ?? 'offline'
  const reason = reasonOf(host, rotation, fleet)
  return { host_id: id, name, status, excluded: rotation.excluded.includes(id), reason }
}

function reasonOf(
  { id, upgrading }: RotationHost,
  { state }: Rotation,
  { view }: Fleet,
): (typeof missingReasons)[number] {
  const host = view.findHost(id)
  if (state === 'ended') return 'must_join'
  if (host?.state !== 'online') return 'offline'
  if (!host.description?.features.includes('rotate-ca')) return 'outdated'
  return upgrading ? 'upgrading' : 'in_progress'
}
