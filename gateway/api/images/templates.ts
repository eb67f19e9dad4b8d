import { Type, type Static } from 'typebox'
import type { Principal } from '../../access/principal.js'
import type { FleetView, TemplateView } from '../../fleet/contract.js'
import { virtualizationName, VirtualizationSchema } from '../guests/guest-row.js'
import { getNamedHost } from '../host-choice.js'
import { listAnswer, listQuery } from '../../http/list.js'
import { route, type Route } from '../../http/route.js'

const TemplateSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    distro: Type.String(),
    release: Type.String(),
    arch: Type.String(),
    description: Type.String(),
    type: VirtualizationSchema,
    available: Type.Boolean({
      description:
        '`true`: the image of the template is downloaded or built on at least one host. `false`: it is downloaded or built at its first use.',
    }),
  },
  { title: 'Template' },
)
type TemplateRow = Static<typeof TemplateSchema>

const sortable = ['id', 'name', 'distro', 'release', 'arch'] as const
const textFilter = Type.String({ maxLength: 64 })

export function templateRoutes({ view }: { view: FleetView }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/templates',
      name: 'listTemplates',
      subUser: 'allowed',
      sortable,
      scope: 'image:read',
      bound: 'own',
      tag: 'Templates',
      summary: 'Lists the templates from which containers can be created',
      query: listQuery({
        host_id: textFilter,
        type: VirtualizationSchema,
        distro: textFilter,
        arch: textFilter,
      }),
      data: Type.Array(TemplateSchema),
      handle: ({ caller, query }) =>
        listAnswer(templateRows(view, caller, query.host_id), query, {
          sortable,
          filters: ['type', 'distro', 'arch'],
        }),
    }),
  ]
}

/** Lists the templates for new guests, one row for each id. Sub-users see only templates whose image is available. */
function templateRows(view: FleetView, caller: Principal, hostId: string | undefined): TemplateRow[] {
  if (hostId !== undefined) getNamedHost(view, hostId)
  const rows = new Map<string, TemplateRow>()
  for (const template of view.templates()) {
    if (hostId !== undefined && template.hostId !== hostId) continue
    if (!isOfGuests(template) || !canBeUsedBy(caller, template)) continue
    if (caller.subUser && !template.template.available) continue
    const row = templateRow(template)
    rows.set(row.id, { ...row, available: row.available || (rows.get(row.id)?.available ?? false) })
  }
  return [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** True if guests can be created from the template: it is neither a CD nor a rescue system. */
export function isOfGuests({ template: { virtualization } }: TemplateView): boolean {
  return virtualization === 'lxc' || virtualization === 'kvm'
}

/** True if the template is enabled, its host supports it, and the caller may use it. */
export function canBeUsedBy({ subUser }: Principal, { template }: TemplateView): boolean {
  return !template.disabled && template.unsupported === '' && (subUser?.images?.has(template.id) ?? true)
}

function templateRow({ template }: TemplateView): TemplateRow {
  const { id, name, distro, release, arch, description, available } = template
  return { id, name, distro, release, arch, description, available, type: virtualizationName(template.virtualization) }
}
