import type { Static } from 'typebox'
import { BerthError, invalidField, notFound } from '../../../shared/errors.js'
import type { TimeFormat } from '../../../shared/time.js'
import { maySee, type Principal } from '../../access/principal.js'
import type { FleetView } from '../../fleet/contract.js'
import type { SubUserChange, SubUserFields } from '../../sub-users/plan-sub-user.js'
import type { ChangeSubUserSchema, CreateSubUserSchema } from './sub-user-schemas.js'

type ChangeBody = Static<typeof ChangeSubUserSchema>
type CreateBody = Static<typeof CreateSubUserSchema>

interface Parts {
  readonly view: FleetView
  readonly time: TimeFormat
}

/** @throws {BerthError} `missing_field`, `invalid_field`, or `not_found` for a container */
export function planCreation(
  parts: Parts,
  body: CreateBody,
  caller: Principal,
): SubUserFields & { containerUuids: readonly string[] } {
  const named = body.container_names?.length ? body.container_names : [body.container_name ?? '']
  if (named.some((name) => name === '')) throw missingName()
  const { containerUuids: _own, ...fields } = planFields(parts, { ...body, container_names: [] }, caller)
  return {
    ...fields,
    containerUuids: resolve(parts.view, named, caller),
    ...(body.username === undefined ? {} : { username: body.username }),
  }
}

/** Converts the body of a request to a change. @throws {BerthError} `invalid_field`, or `not_found` for a container */
export function planChange(parts: Parts, body: ChangeBody, caller: Principal): SubUserChange {
  const { container_names: all, add_container_names: added, remove_container_names: removed } = body
  if (all !== undefined && (added ?? removed) !== undefined)
    throw invalidField(
      'container_names',
      'container_names: cannot be sent together with add_container_names or remove_container_names',
    )
  const addedUuids = resolve(parts.view, added ?? [], caller)
  const removedUuids = resolve(parts.view, removed ?? [], caller)
  if (addedUuids.some((uuid) => removedUuids.includes(uuid)))
    throw invalidField('remove_container_names', 'remove_container_names: contains a container that is also added')
  return { ...planFields(parts, body, caller), addedUuids, removedUuids }
}

/** Converts the fields that were sent. @throws {BerthError} `invalid_field`, or `not_found` for a container */
function planFields({ view, time }: Parts, body: ChangeBody, caller: Principal): SubUserFields {
  const { container_names: names, permissions, expires_at: expiry } = body
  return {
    containerUuids: names && resolve(view, names, caller),
    scopes: permissions && [...new Set(permissions)],
    imageIds: planImages(body),
    portMappingLimit: body.port_mapping_limit,
    expiresAtMs: expiry === undefined ? undefined : time.parseField('expires_at', expiry.trim()),
    disabled: body.disabled,
  }
}

/** Plans which images a sub-user may use. `null`: all images; `undefined`: no change. Rejects contradictory fields. */
function planImages({
  allowed_image_ids: ids,
  image_limit_configured: limited,
}: ChangeBody): readonly string[] | null | undefined {
  if (limited === false && ids !== undefined && ids.length > 0)
    throw invalidField('allowed_image_ids', 'allowed_image_ids: must be empty if image_limit_configured is false')
  if (limited === false) return null
  return ids === undefined ? (limited ? [] : undefined) : [...new Set(ids)]
}

/** Finds containers by id, uuid or name, without duplicates. Containers hidden from the caller count as unknown. */
function resolve(view: FleetView, refs: readonly string[], caller: Principal): string[] {
  const uuids = refs.map((ref) => {
    const found = view.findGuest(ref)
    if (found === undefined || !maySee(caller, found.guest.uuid)) throw notFound('container')
    return found.guest.uuid
  })
  return [...new Set(uuids)]
}

function missingName(): BerthError {
  const message = 'container_name: is required, for example "web1"'
  return new BerthError('invalid', 'missing_field', message, { field: 'container_name' })
}
