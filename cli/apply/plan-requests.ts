import type { ClientRequest } from '../../client/index.js'
import { CliError, exitCodes } from '../errors.js'
import { compareMappings, mappingBody, type Mapping } from './mappings.js'
import type { Field, Fields, GuestSetting, Kind } from './kinds.js'
import { differingFields, type Alteration } from './plan-changes.js'
import type { CurrentItem, NamesOfIds } from './plan-current.js'
import type { WantedItem } from './plan-wanted.js'

/* This module converts changes to requests. */

type ItemRequest = Pick<ClientRequest, 'method' | 'path' | 'body'>

/** Returns the request that creates an object. @throws {CliError} `notFound` if the object names an unknown guest */
export function createRequest({ kind, name, fields }: WantedItem, names: NamesOfIds): ItemRequest {
  const given = kind.fields.filter((field) => fields[field.name] !== undefined && !field.isAddedLater)
  const own = kind.nameField === undefined ? {} : { [kind.nameField]: name }
  const body = { ...own, ...bodyOf(given, fields, { kind, names }), ...newMappings(fields) }
  return { method: 'POST', path: kind.createPath, body }
}

/** Returns the mappings of a new guest. An empty list gives no mappings. Without a list, Berth chooses mappings. */
function newMappings({ ports }: Fields): object {
  if (ports === undefined) return {}
  const mappings = ports as readonly Mapping[]
  return mappings.length === 0 ? { assign_nat: false } : { nat_port_mappings: mappings.map(mappingBody) }
}

interface BodyContext {
  readonly kind: Kind
  readonly names: NamesOfIds
}

function bodyOf(fields: readonly Field[], values: Fields, { kind, names }: BodyContext): object {
  const entries = fields.map(({ name, api, form }) => {
    const value = values[name]
    if (name === 'host') return [api, idOf(names.hosts, String(value)) ?? value]
    if (kind.noun === 'api-key' && name === 'guests') return [api, uuidsOf(value as string[], names)]
    return [api, form.send ? form.send(value) : value]
  })
  return Object.fromEntries(entries) as object
}

function uuidsOf(guests: readonly string[], names: NamesOfIds): string[] {
  return guests.map((name) => {
    const uuid = idOf(names.guests, name) ?? (uuidForm.test(name) ? name : undefined)
    if (uuid === undefined) throw new CliError(exitCodes.notFound, `guest ${name} does not exist`)
    return uuid
  })
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const idOf = (names: ReadonlyMap<string, string>, wanted: string): string | undefined =>
  [...names].find(([, name]) => name === wanted)?.[0]

/** Returns the request that changes an object other than a guest. @throws {CliError} as `createRequest` */
export function changeRequest({ wanted: { kind }, current, fields }: Alteration, names: NamesOfIds): ItemRequest {
  const changed = kind.fields.filter(({ name }) => fields[name] !== undefined)
  const isSingle = kind.nameField === undefined
  return {
    method: isSingle ? 'PUT' : 'PATCH',
    path: isSingle ? kind.path : `${kind.path}/${encodeURIComponent(current.id)}`,
    body: bodyOf(changed, fields, { kind, names }),
  }
}

const settingPaths: Readonly<Record<Exclude<GuestSetting, 'ports'>, { method: string; path: string }>> = {
  limits: { method: 'PUT', path: '/resource-limit' },
  labels: { method: 'PATCH', path: '' },
  expiry: { method: 'PUT', path: '/expiry' },
  traffic: { method: 'PUT', path: '/traffic-limit' },
  snapshots: { method: 'PUT', path: '/snapshots/quota' },
  devices: { method: 'PUT', path: '/devices' },
  firewall: { method: 'PUT', path: '/firewall' },
}

/** Returns the requests that change a guest, in the order in which they are sent. */
export function guestRequests(wanted: WantedItem, current: CurrentItem): ItemRequest[] {
  const fields = differingFields(wanted, current)
  const path = `/containers/${encodeURIComponent(current.id)}`
  const settings = Object.entries(settingPaths).flatMap(([change, setting]): ItemRequest[] => {
    const changed = wanted.kind.fields.filter((field) => field.change === change && fields[field.name] !== undefined)
    if (changed.length === 0) return []
    const values = Object.fromEntries(changed.map(({ name, api }) => [api, fields[name]]))
    const body = change === 'firewall' ? fields['firewall'] : values
    return [{ method: setting.method, path: `${path}${setting.path}`, body }]
  })
  return [...settings, ...mappingRequests(`${path}/port-mappings`, fields, current.fields)]
}

/** Returns the requests for mappings. Removes the highest position first, because a removal changes later positions. */
function mappingRequests(path: string, { ports: wanted }: Fields, { ports: current }: Fields): ItemRequest[] {
  if (wanted === undefined) return []
  const { added, removed, renamed } = compareMappings(wanted as Mapping[], current as Mapping[])
  return [
    ...renamed.map(({ index, description }) => ({ method: 'PUT', path: `${path}/${index}`, body: { description } })),
    ...removed.toSorted((a, b) => b - a).map((index) => ({ method: 'DELETE', path: `${path}/${index}` })),
    ...added.map((mapping) => ({ method: 'POST', path, body: mappingBody(mapping) })),
  ]
}
