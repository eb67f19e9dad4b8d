import type { Row } from '../output/table.js'
import { sortedSet } from './forms.js'
import type { Field, Fields, Kind } from './kinds.js'

/** An object as it is in the fleet now. */
export interface CurrentItem {
  readonly kind: Kind
  readonly name: string
  /** Id in paths of the API; empty if there is only one object of this kind. */
  readonly id: string
  /** Canonical values of the fields that the API shows. */
  readonly fields: Fields
  /** Status of a guest; empty for other objects. */
  readonly status: string
}

/** Names of guests and hosts by their ids. */
export interface NamesOfIds {
  readonly guests: ReadonlyMap<string, string>
  readonly hosts: ReadonlyMap<string, string>
}

/** Converts a row of the API. @param row for a guest, it also contains the firewall if the firewall was read */
export function currentItem(kind: Kind, row: Row, names: NamesOfIds): CurrentItem {
  const values = kind.fields.flatMap((field) => valueOf(kind, field, { row, names }))
  return {
    kind,
    name: kind.nameField === undefined ? '' : textIn(row, kind.nameField),
    id: textIn(row, kind.noun === 'guest' ? 'uuid' : 'id'),
    fields: Object.fromEntries(values),
    status: textIn(row, 'status'),
  }
}

function textIn(row: Row, name: string): string {
  const value = row[name]
  return typeof value === 'string' || typeof value === 'number' ? String(value) : ''
}

interface NamedRow {
  readonly row: Row
  readonly names: NamesOfIds
}

function valueOf({ noun }: Kind, field: Field, { row, names }: NamedRow): [string, unknown][] {
  const value = row[field.row]
  if (field.name === 'host') return [[field.name, names.hosts.get(String(value)) ?? value]]
  if (field.change === 'initial' || (field.name === 'firewall' && value === undefined)) return []
  if (noun === 'api-key' && field.name === 'guests') return [[field.name, namesOf(value as string[], names)]]
  return [[field.name, field.form.read ? field.form.read(value) : value]]
}

/** Returns guests' names. Keeps UUIDs of deleted guests, because an empty list would mean all guests. */
function namesOf(uuids: readonly string[], { guests }: NamesOfIds): string[] {
  return sortedSet(uuids.map((uuid) => guests.get(uuid) ?? uuid))
}
