import { Type } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { HostRowSchema } from './host-row.js'
import { getRow, HostPathSchema } from './hosts.js'

const UpgradeBodySchema = Type.Object(
  {
    rollback: Type.Optional(
      Type.Boolean({ description: '`true`: installs `previous_version`, whose packages the host retains.' }),
    ),
  },
  { title: 'UpgradeHost' },
)

/** Error codes for a host that cannot install another version. */
export const upgradeErrors = ['upgrade_unsupported', 'upgrade_running', 'packages_missing', 'packages_outdated']

export function hostUpgradeRoute({ fleet, time }: { readonly fleet: Fleet; readonly time: TimeFormat }): Route {
  return route({
    method: 'POST',
    path: '/hosts/{id}/upgrade',
    name: 'upgradeHost',
    scope: 'host:manage',
    bound: 'refused',
    audit: 'host.upgrade',
    tag: 'Hosts',
    summary:
      'Starts to install the version of this gateway on the host or, with `rollback`, the version that the host had before. Containers keep running. The field `upgrade` of the host shows the progress. If the host already has the version, the answer is 200 and nothing is started',
    params: HostPathSchema,
    body: UpgradeBodySchema,
    bodyOptional: true,
    example: { rollback: false },
    data: HostRowSchema,
    statuses: [200, 202],
    errors: [...upgradeErrors, 'no_previous_version', 'guest_moving', 'host_offline', 'agent_timeout'],
    handle: async (context) => {
      const { params, body, caller, operationId } = context
      const rollback = isRollback(body)
      const shown = () => getRow({ view: fleet.view, time }, caller, params.id)
      const { name, version, previous_version: previous } = shown()
      const to = rollback ? previous : fleet.upgrades.version
      context.audit({
        target: name,
        detail: `id ${params.id}, ${rollback ? 'rollback' : 'upgrade'} from ${version} to ${to}`,
      })
      const started = await fleet.upgrades.start(params.id, { id: operationId, rollback })
      if (started === 'up_to_date') return { message: `the host has version ${version} already`, data: shown() }
      return { status: 202, message: `the host installs version ${to}`, data: shown() }
    },
  })
}

/** The optional body is not validated, so its type is not known. */
function isRollback(body: unknown): boolean {
  return typeof body === 'object' && body !== null && (body as { rollback?: unknown }).rollback === true
}
