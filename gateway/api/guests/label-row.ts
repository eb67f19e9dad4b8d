import { Type, type Static, type TObject } from 'typebox'
import { maxTags, noLabels, tagPattern } from '../../../shared/label-rules.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'

/** Schema of tags in a request. */
export const tagsSchema = (description: string) =>
  Type.Array(Type.String({ pattern: tagPattern }), { maxItems: maxTags, description })

/** Fields of a container's row that only administrators set. */
export const labelRowFields = {
  tags: Type.Array(Type.String(), { description: 'Tags of the container, in alphabetical order.' }),
  note: Type.Optional(
    Type.String({
      description:
        'Note of the provider about the container. Absent if it is empty, for sub-users and for keys that are bound to containers.',
    }),
  ),
  delete_protected: Type.Boolean({
    description: '`true`: the container can neither be deleted nor reinstalled until this is set to `false`.',
  }),
}
type LabelRow = Static<TObject<typeof labelRowFields>>

/** @param shown `customer` omits the note */
export function labelsRow({ labels }: Pick<Guest, 'labels'>, shown: 'all' | 'customer'): LabelRow {
  const { tags, note, deleteProtected } = labels ?? noLabels
  return {
    tags: [...tags],
    ...(shown === 'all' && note !== '' && { note }),
    delete_protected: deleteProtected,
  }
}
