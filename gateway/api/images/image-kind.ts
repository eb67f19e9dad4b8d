import { Type, type Static } from 'typebox'
import { oneOf } from '../../http/schema.js'
import { VirtualizationSchema, virtualizationName } from '../guests/guest-row.js'

const imageKinds = ['iso', 'rescue'] as const
type ImageKind = (typeof imageKinds)[number]

const ImageKindSchema = oneOf(
  imageKinds,
  'Use of an image. `iso`: a CD. `rescue`: a rescue system. Absent: the image is for new containers.',
)

/** Fields that describe the use of an image. */
export const imageTypeFields = { type: VirtualizationSchema, kind: Type.Optional(ImageKindSchema) }

export function imageTypeRow(virtualization: string): {
  type: Static<typeof VirtualizationSchema>
  kind?: ImageKind
} {
  const kind = imageKinds.find((known) => known === virtualization)
  return kind ? { type: 'kvm', kind } : { type: virtualizationName(virtualization) }
}

/** Query fields that filter lists of images. Older clients send the kind as `type`. */
export const imageTypeFilters = {
  type: oneOf(
    ['lxc', 'kvm', ...imageKinds],
    '`lxc` and `kvm`: only images for new containers of this virtualization. `iso`: only CDs. `rescue`: only rescue systems.',
  ),
  kind: oneOf(imageKinds, '`iso`: only CDs. `rescue`: only rescue systems. Absent: images of all uses.'),
}

export interface TypeQuery {
  readonly type?: 'lxc' | 'kvm' | ImageKind
  readonly kind?: ImageKind
}

export function matchesType(virtualization: string, { type, kind }: TypeQuery): boolean {
  return [type, kind].every((wanted) => wanted === undefined || wanted === virtualization)
}
