import type { GuestView } from '../reported.js'
import { isDeleted, statusOf } from '../guest-status.js'
import type { Fields } from '../../lists/query.js'
import { Table } from '../../lists/table.js'

const noTags: readonly string[] = []

/** Fields of guests by their names in the API. Times have whole seconds, as the API shows them. */
export const guestFields = {
  id: ({ guest }) => guest.id,
  name: ({ guest }) => guest.name,
  status: statusOf,
  virtualization: ({ guest }) => (guest.virtualization === 'kvm' ? 'kvm' : 'lxc'),
  template: ({ guest }) => guest.templateId,
  vcpu: ({ guest }) => guest.limits?.vcpuMilli ?? 0,
  ram_mb: ({ guest }) => guest.limits?.ramMb ?? 0,
  disk_gb: ({ guest }) => guest.limits?.diskGb ?? 0,
  created_at: ({ guest }) => Math.floor(guest.createdAtMs / 1000),
  host_id: ({ hostId }) => hostId,
  deleted: ({ guest }) => String(isDeleted(guest)),
  tag: ({ guest }) => guest.labels?.tags ?? noTags,
} as const satisfies Fields<GuestView, string>

export type GuestField = keyof typeof guestFields

/** Guests by uuid, ordered by id. */
export class GuestTable<Item extends GuestView = GuestView> extends Table<Item, GuestField> {
  constructor() {
    super({
      fields: guestFields,
      compare: (a, b) => a.guest.id - b.guest.id,
      counted: ['status', 'virtualization', 'template', 'host_id'],
    })
  }
}
