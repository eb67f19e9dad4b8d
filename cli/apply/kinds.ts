import { guestDevices } from '../../shared/guest-devices.js'
import { checkNote, parseTags } from '../../shared/label-rules.js'
import {
  addresses,
  checked,
  decimal,
  flag,
  joinedAddresses,
  oneOf,
  size,
  text,
  textsOf,
  time,
  url,
  whole,
  words,
  wordsOf,
  type Form,
} from './forms.js'
import { ports } from './mappings.js'
import { firewall, placement } from './network-forms.js'

/* The kinds of objects in a fleet file, and their fields. */

/**
 * How a field is changed. `initial`: the field is only used for a new guest. `fixed`: the field cannot be changed.
 * `item`: the request that changes the object contains the field. Other values name the request for a guest's setting.
 */
export type ChangeKind = 'initial' | 'fixed' | 'item' | GuestSetting
export type GuestSetting = 'limits' | 'labels' | 'expiry' | 'traffic' | 'snapshots' | 'devices' | 'ports' | 'firewall'

export interface Field {
  /** Name of the field in the file. */
  readonly name: string
  /** Name of the field in requests. */
  readonly api: string
  /** Name of the field in rows of the API. */
  readonly row: string
  readonly form: Form
  readonly change: ChangeKind
  /** True if the request for a new object does not accept the field. */
  readonly isAddedLater: boolean
}

export type Noun =
  'guest' | 'customer' | 'api-key' | 'webhook' | 'access-policy' | 'deletion-settings' | 'login-settings'

export interface Kind {
  readonly noun: Noun
  /** Name of the section in the file. It is a list of objects, or the only object of this kind. */
  readonly section: string
  /** Path of the list in the API, or of the only object of this kind. */
  readonly path: string
  /** Path of requests that create an object. */
  readonly createPath: string
  /** Field of the API that contains the object's name; undefined: there is only one object of this kind. */
  readonly nameField: string | undefined
  /** True if names that differ only in upper and lower case are equal. */
  readonly isCaseless: boolean
  /** Fields that a new object must have. */
  readonly required: readonly string[]
  readonly fields: readonly Field[]
}

type FieldOptions = Partial<Pick<Field, 'api' | 'row' | 'isAddedLater'>>

function field(name: string, form: Form, change: ChangeKind, options: FieldOptions = {}): Field {
  const { api = name, row = api, isAddedLater = false } = options
  return { name, api, row, form, change, isAddedLater }
}

/** Text that can contain passwords. Differences show only its length. */
const secret: Form = { ...text, describe: (value) => `(${String(value).length} characters)` }
const describeKeyGuests = (names: readonly string[]): string => (names.length > 0 ? names.join(', ') : 'all guests')
const tags: Form = { ...words, parse: (value) => checked(() => parseTags(textsOf(value)), 'tags') }
const note: Form = { ...text, parse: (value) => checked(() => checkNote(text.parse(value) as string), 'note') }

const guest: Kind = {
  noun: 'guest',
  section: 'guests',
  path: '/containers',
  createPath: '/containers',
  nameField: 'name',
  isCaseless: true,
  required: ['image'],
  fields: [
    field('image', text, 'fixed', { api: 'template_id', row: 'template' }),
    field('virtualization', oneOf('lxc', 'kvm'), 'fixed'),
    field('host', text, 'initial', { api: 'host_id' }),
    field('start', flag, 'initial'),
    field('ssh_public_key', text, 'initial'),
    field('user_data', secret, 'initial'),
    field('ipv4_count', whole, 'initial'),
    field('ipv6_count', whole, 'initial'),
    field('vcpu', decimal, 'limits'),
    field('ram', size('MiB'), 'limits', { api: 'ram_mb' }),
    field('disk', size('GiB'), 'limits', { api: 'disk_gb' }),
    field('network_down_mbps', whole, 'limits'),
    field('network_up_mbps', whole, 'limits'),
    field('io_read_mbps', whole, 'limits'),
    field('io_write_mbps', whole, 'limits'),
    field('io_read_iops', whole, 'limits'),
    field('io_write_iops', whole, 'limits'),
    field('traffic_mode', oneOf('total', 'split'), 'traffic'),
    field('monthly_traffic', size('GB'), 'traffic', { api: 'monthly_traffic_gb' }),
    field('traffic_in', size('GB'), 'traffic', { api: 'traffic_in_gb' }),
    field('traffic_out', size('GB'), 'traffic', { api: 'traffic_out_gb' }),
    field('traffic_action', oneOf('stop', 'throttle', 'none'), 'traffic'),
    field('traffic_throttle_mbps', whole, 'traffic'),
    field('traffic_reset_day', whole, 'traffic'),
    field('snapshot_limit', whole, 'snapshots'),
    field('expires_at', time, 'expiry'),
    field('devices', wordsOf(...guestDevices), 'devices'),
    field('tags', tags, 'labels'),
    field('note', note, 'labels', { isAddedLater: true }),
    field('placement', placement, 'labels'),
    field('delete_protected', flag, 'labels', { isAddedLater: true }),
    field('ports', ports, 'ports', { row: 'port_mappings', isAddedLater: true }),
    field('firewall', firewall, 'firewall', { isAddedLater: true }),
  ],
}

const customer: Kind = {
  noun: 'customer',
  section: 'customers',
  path: '/sub-users',
  createPath: '/sub-user/create',
  nameField: 'username',
  isCaseless: true,
  required: ['guests'],
  fields: [
    field('guests', words, 'item', { api: 'container_names' }),
    field('permissions', words, 'item'),
    field('allowed_images', words, 'item', { api: 'allowed_image_ids' }),
    field('image_limit_configured', flag, 'item'),
    field('port_mapping_limit', whole, 'item'),
    field('expires_at', time, 'item'),
    field('disabled', flag, 'item'),
  ],
}

const apiKey: Kind = {
  noun: 'api-key',
  section: 'api_keys',
  path: '/api-keys',
  createPath: '/api-keys',
  nameField: 'name',
  isCaseless: false,
  required: [],
  fields: [
    field('scopes', words, 'item'),
    field('guests', { ...words, describe: (value) => describeKeyGuests(value as string[]) }, 'item', {
      api: 'container_uuids',
    }),
    field('ip_whitelist', joinedAddresses, 'item'),
    field('expires_at', time, 'item'),
    field('disabled', flag, 'item'),
  ],
}

const webhook: Kind = {
  noun: 'webhook',
  section: 'webhooks',
  path: '/webhooks',
  createPath: '/webhooks',
  nameField: 'name',
  isCaseless: true,
  required: ['url'],
  fields: [field('url', url, 'item'), field('events', words, 'item'), field('disabled', flag, 'item')],
}

function settings(noun: Noun, fields: readonly Field[]): Kind {
  const path = `/${noun}`
  const section = noun.replace('-', '_')
  return { noun, section, path, createPath: path, nameField: undefined, isCaseless: false, required: [], fields }
}

/** All kinds, in the order in which they are applied: customers and keys follow the guests that they need. */
export const kinds: readonly Kind[] = [
  guest,
  customer,
  apiKey,
  webhook,
  settings('deletion-settings', [field('undo_delete_hours', whole, 'item')]),
  settings('login-settings', [field('require_2fa', oneOf('none', 'admins', 'all'), 'item')]),
  settings('access-policy', [
    field('allowed_sources', addresses, 'item'),
    field('trusted_proxies', addresses, 'item'),
    field('enabled', flag, 'item'),
  ]),
]

export const kindOf = (noun: Noun): Kind => kinds.find((kind) => kind.noun === noun)!

/** Values of an object by the names of its fields in the file, in their canonical form. */
export type Fields = Readonly<Record<string, unknown>>

/** Returns a name in the form that is used to compare objects. */
export const nameKey = ({ isCaseless }: Kind, name: string): string => (isCaseless ? name.toLowerCase() : name)
