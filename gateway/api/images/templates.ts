import { Type, type Static } from 'typebox'
import type { FleetView, TemplateView } from '../../fleet/contract.js'
import { virtualizationName, VirtualizationSchema } from '../guests/guest-row.js'
import { getNamedHost } from '../hosts/host-choice.js'
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
      description: 'The image is there on at least one host; else its first use makes it.',
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
      sortable,
      scope: 'image:read',
      bound: 'same',
      tag: 'Templates',
      summary: 'What containers can be created from',
      query: listQuery({
        host_id: textFilter,
        type: VirtualizationSchema,
        distro: textFilter,
        arch: textFilter,
      }),
      data: Type.Array(TemplateSchema),
      handle: ({ query }) =>
        listAnswer(templateRows(view, query.host_id), query, {
          sortable,
          filters: ['type', 'distro', 'arch'],
        }),
    }),
  ]
}

/** One row for each id, whichever hosts have it: of what a guest may be made from. */
function templateRows(view: FleetView, hostId: string | undefined): TemplateRow[] {
  if (hostId !== undefined) getNamedHost(view, hostId)
  const rows = new Map<string, TemplateRow>()
  for (const template of view.templates()) {
    if (hostId !== undefined && template.hostId !== hostId) continue
    if (!canBeUsed(template)) continue
    const row = templateRow(template)
    rows.set(row.id, { ...row, available: row.available || (rows.get(row.id)?.available ?? false) })
  }
  return [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** By its host, for guests. */
export function canBeUsed({ template: { disabled, unsupported } }: TemplateView): boolean {
  return !disabled && unsupported === ''
}

function templateRow({ template }: TemplateView): TemplateRow {
  const { id, name, distro, release, arch, description, available } = template
  return {
    ...{ id, name, distro, release, arch, description, available },
    type: virtualizationName(template.virtualization),
  }
}
