import type { Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { SubUserPermission } from '../../access/sub-user-bounds.js'
import type { SubUserAccount } from '../../accounts/account-record.js'
import type { LastLogin } from '../../accounts/login-log.js'
import type { FleetView, GuestView } from '../../fleet/contract.js'
import type { ShownSubUser } from '../../sub-users/sub-users.js'
import type { CreatedSubUserSchema, SubUserRowSchema } from './sub-user-schemas.js'

export interface RowParts {
  readonly view: FleetView
  readonly time: TimeFormat
  /** Creates the login link for an access code. "": the public URL of the panel is not known. */
  readonly linkOf: (accessCode: string) => string
}

export interface SubUserDetails {
  readonly account: SubUserAccount
  readonly accessCode: string
  /** Last login of the account. `undefined`: the user has never logged in. */
  readonly lastLogin: LastLogin | undefined
}

export function subUserRow(
  { view, time, linkOf }: RowParts,
  { account, accessCode, lastLogin }: SubUserDetails,
): Static<typeof SubUserRowSchema> {
  const containers = containersOf(view, account)
  return {
    id: String(account.id),
    username: account.username,
    container_name: containers[0]?.guest.name ?? '',
    container_uuid: containers[0]?.guest.uuid ?? '',
    container_names: containers.map(({ guest }) => guest.name),
    container_uuids: containers.map(({ guest }) => guest.uuid),
    access_code: accessCode,
    link: linkOf(accessCode),
    permissions: [...account.scopes] as SubUserPermission[],
    allowed_image_ids: [...(account.imageIds ?? [])],
    image_limit_configured: account.imageIds !== null,
    current_image_ids: [...new Set(containers.map(({ guest }) => guest.templateId))],
    port_mapping_limit: account.portMappingLimit,
    created_at: time.format(account.createdAtMs),
    created_by: account.createdBy,
    last_login: time.format(lastLogin?.atMs ?? 0),
    last_login_ip: lastLogin?.address ?? '',
    last_login_ua: lastLogin?.userAgent ?? '',
    expires_at: time.format(account.expiresAtMs),
    disabled: account.disabled,
  }
}

export function createdRow(
  { view, time, linkOf }: RowParts,
  { account, password, accessCode }: ShownSubUser,
): Static<typeof CreatedSubUserSchema> {
  return {
    id: String(account.id),
    username: account.username,
    password,
    created: password !== '',
    container_names: containersOf(view, account).map(({ guest }) => guest.name),
    access_code: accessCode,
    link: linkOf(accessCode),
    created_at: time.format(account.createdAtMs),
  }
}

/** Finds the containers of an account. Containers that were just deleted are omitted. */
function containersOf(view: FleetView, { containerUuids }: SubUserAccount): GuestView[] {
  return containerUuids.flatMap((uuid) => view.findGuest(uuid) ?? [])
}
