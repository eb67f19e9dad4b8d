import { Type, type Static, type TObject } from 'typebox'
import type { Guest, GuestPlacement } from '../../../proto/gen/berth/agent/v1/guest.js'
import {
  hostLabelPattern,
  isPlaced,
  maxHostLabels,
  noPlacement,
  parsePlacement,
  placementNamePattern,
} from '../../../shared/placement-rules.js'

const name = (description: string) =>
  Type.Optional(Type.String({ pattern: placementNamePattern, description: `${description} Empty: none.` }))

/** Error codes for a guest whose placement rules no host fulfills. */
export const placementErrors = ['placement_group', 'placement_label', 'placement_spread', 'placement_together'] as const

/** Placement rules in requests. Omitted fields are empty. */
export const PlacementSchema = Type.Object(
  {
    group: name('The host must belong to this group.'),
    labels: Type.Optional(
      Type.Array(Type.String({ pattern: hostLabelPattern }), {
        maxItems: maxHostLabels,
        description:
          'Each entry must match a label of the host. `key=value` matches exactly this label. An entry without `=`, such as `ssd`, matches the label `ssd` and every label with the key `ssd`.',
      }),
    ),
    spread: name('Name of a group of containers. All containers with the same name here must be on different hosts.'),
    together: name('Name of a group of containers. All containers with the same name here must be on the same host.'),
  },
  {
    title: 'PlacementRules',
    description:
      'Rules for the host of the container, which apply to its creation, migrations and drains. They replace all earlier rules. `{}`: none.',
  },
)

export const placementRowFields = {
  placement: Type.Optional(
    Type.Object(PlacementSchema.properties, {
      title: 'ContainerPlacement',
      description:
        'Rules for the host of the container. Absent if there are none, for sub-users and for keys that are bound to containers.',
    }),
  ),
}

/** @param shown `customer` omits the rules */
export function placementRow(
  { placement }: Pick<Guest, 'placement'>,
  shown: 'all' | 'customer',
): Static<TObject<typeof placementRowFields>> {
  if (shown === 'customer' || !placement || !isPlaced(placement)) return {}
  const { group, labels, spread, together } = placement
  return { placement: { group, labels: [...labels], spread, together } }
}

/** @throws {BerthError} `invalid_field` */
export function planRules(body: Static<typeof PlacementSchema> | undefined): GuestPlacement {
  const rules = parsePlacement({ ...noPlacement, ...body })
  return { ...rules, labels: [...rules.labels] }
}
