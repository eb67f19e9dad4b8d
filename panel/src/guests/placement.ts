import type { Guest } from '../api/types.ts'
import { splitWords } from '../ui/words.ts'

/** Content of the fields for placement rules. Labels are separated by spaces. */
export interface PlacementForm {
  group: string
  labels: string
  spread: string
  together: string
}

export function placementForm({ group = '', labels = [], spread = '', together = '' }: Rules = {}): PlacementForm {
  return { group, labels: labels.join(' '), spread, together }
}

type Rules = NonNullable<Guest['placement']>

export function planPlacement({ group, labels, spread, together }: PlacementForm): Rules {
  return { group: group.trim(), labels: splitWords(labels), spread: spread.trim(), together: together.trim() }
}

/** True if a field is filled in. */
export function hasRules(form: PlacementForm): boolean {
  return Object.values(form).some((text: string) => text.trim() !== '')
}
