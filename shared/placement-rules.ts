import { invalidField } from './errors.js'

/* Rules for groups and labels of hosts, and for the placement of guests. Gateway and agent check these rules. */

export const maxHostLabels = 16
/** Name of a group of hosts or guests. "": no group. Guests of a group are spread over hosts or kept together. */
export const placementNamePattern = '^(?:[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?)?$'
export const placementNameRule =
  'must be empty, or 1 to 63 lower-case letters, digits, "-", "_" and ".", beginning and ending with a letter or digit'
/** A word, or key=value. */
export const hostLabelPattern = '^[a-z0-9](?:[a-z0-9_./-]{0,62})(?:=[a-z0-9_.-]{1,63})?$'
export const hostLabelRule =
  'must be a word or key=value, each part at most 63 lower-case letters, digits, "-", "_" and ".", the first one also with "/"'

/** Rules that decide which hosts are allowed for a guest. Empty fields allow every host. */
export interface PlacementRules {
  /** Group to which the host must belong. */
  readonly group: string
  /** Labels that the host must have. A label without `=` matches all labels of the host with this key. */
  readonly labels: readonly string[]
  /** Name of a group. Guests with the same value must be on different hosts. */
  readonly spread: string
  /** Name of a group. Guests with the same value must be on the same host. */
  readonly together: string
}

export const noPlacement: Readonly<PlacementRules> = { group: '', labels: [], spread: '', together: '' }

const name = new RegExp(placementNamePattern)
const label = new RegExp(hostLabelPattern)

/** @throws {BerthError} `invalid_field` */
function checkPlacementName(field: string, text: string): string {
  if (!name.test(text)) throw invalidField(field, `${field}: ${placementNameRule}`, { name: 'placement_name' })
  return text
}

/** @returns each label once, in alphabetical order. @throws {BerthError} `invalid_field` */
export function parseLabels(field: string, texts: readonly string[]): string[] {
  if (!texts.every((text) => label.test(text)))
    throw invalidField(field, `${field}: each label ${hostLabelRule}`, { name: 'host_label' })
  const labels = [...new Set(texts)].sort()
  if (labels.length > maxHostLabels) throw invalidField(field, `${field}: must be at most ${maxHostLabels} labels`)
  return labels
}

/** Parses the labels of a host. A key can have only one value. @throws {BerthError} `invalid_field` */
export function parseHostLabels(texts: readonly string[]): string[] {
  const labels = parseLabels('labels', texts)
  const keys = labels.map(keyOf)
  const twice = keys.find((key, at) => keys.indexOf(key) < at)
  if (twice !== undefined) throw invalidField('labels', `labels: ${twice} has two values`)
  return labels
}

/** @throws {BerthError} `invalid_field` */
export function parsePlacement({ group, labels, spread, together }: PlacementRules): PlacementRules {
  if (spread !== '' && spread === together)
    throw invalidField('placement', 'placement: spread and together must not have the same name')
  return {
    group: checkPlacementName('placement.group', group),
    labels: parseLabels('placement.labels', labels),
    spread: checkPlacementName('placement.spread', spread),
    together: checkPlacementName('placement.together', together),
  }
}

/** True if the rules restrict the hosts of a guest. */
export function isPlaced({ group, labels, spread, together }: PlacementRules): boolean {
  return group !== '' || labels.length > 0 || spread !== '' || together !== ''
}

/** True if a host has a required label. A required label without `=` matches all labels with this key. */
export function hasLabel(labels: readonly string[], required: string): boolean {
  return labels.some((own) => own === required || own.startsWith(`${required}=`))
}

function keyOf(text: string): string {
  return text.split('=')[0]!
}
