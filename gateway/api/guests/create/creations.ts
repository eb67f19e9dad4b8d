import { Type, type Static } from 'typebox'
import { BerthError, invalidField } from '../../../../shared/errors.js'
import type { TimeFormat } from '../../../../shared/time.js'
import type { GuestSpec } from '../../../../proto/gen/berth/agent/v1/guest.js'
import type { Principal } from '../../../access/principal.js'
import type { CreationBackup, GuestCreation } from '../../../fleet/creation-contract.js'
import type { Fleet, FleetView } from '../../../fleet/contract.js'
import { getNamedHost } from '../../host-choice.js'
import { checkMayAllowDevices } from '../device-schema.js'
import type { CreateBody } from './create-body.js'
import { statusOf } from '../../../fleet/guest-status.js'
import { GuestStatusSchema } from '../guest-row.js'
import { planInitialSettings, type InitialSettingParts, type InitialSettings } from './initial-settings.js'
import { planCreate } from './plan-create.js'
import type { Os } from './plan-login.js'

export const CreatedSchema = Type.Object(
  {
    task_id: Type.String(),
    id: Type.Integer(),
    uuid: Type.String(),
    name: Type.String(),
    status: GuestStatusSchema,
    action: Type.Literal('create'),
    ssh_port: Type.Integer(),
    ssh_password: Type.String({
      description:
        'Password of the login, in plain text. It is returned only in this answer. Empty if `ssh_auth_mode` is `key`.',
    }),
  },
  { title: 'CreatedContainer' },
)
export type CreatedContainer = Static<typeof CreatedSchema> & { hostId: string }

/** A creation that has passed all checks of the gateway. */
export interface PlannedCreation extends InitialSettings {
  readonly name: string
  readonly spec: GuestSpec
  readonly hostId?: string
  /** Backup from which the disk is restored. Absent: the disk is made from the template. */
  readonly backup?: CreationBackup
}

export interface CreationParts extends InitialSettingParts {
  readonly fleet: Fleet
  readonly time: TimeFormat
}

/**
 * Checks a creation without changing anything.
 * @param options `hasTemplate`: false if the disk is made from a backup; the template need not exist in this case
 * @throws {BerthError} `invalid_field`, `missing_field`, `unsupported`, `insufficient_scope`, `not_found`,
 * `backup_target_missing`
 */
export async function checkCreation(
  { fleet, time, ...parts }: CreationParts,
  body: CreateBody,
  caller: Principal,
  { hasTemplate = true }: { readonly hasTemplate?: boolean } = {},
): Promise<PlannedCreation> {
  checkMayAllowDevices(caller, body.devices)
  const { name, spec: planned } = planCreate(body, time, osOf(fleet.view, body.template_id))
  // A container whose expiry is in the past is created, but not started.
  const isOver = planned.expiresAtMs !== 0 && planned.expiresAtMs <= Date.now()
  const spec = { ...planned, start: planned.start && !isOver }
  if (body.host_id !== undefined && body.host_id !== '') getNamedHost(fleet.view, body.host_id)
  if (hasTemplate) checkTemplate(fleet.view, spec.templateId)
  const initial = await planInitialSettings(parts, body, caller)
  return { name, spec, ...(body.host_id ? { hostId: body.host_id } : {}), ...initial }
}

/** Queues the creation and waits until the fleet view shows the container. */
export async function orderCreation(
  { fleet }: CreationParts,
  { note, ...planned }: PlannedCreation,
  { caller, operationId }: { readonly caller: Principal; readonly operationId: string },
): Promise<CreatedContainer> {
  const creation = await fleet.createGuest({ operationId, requestedBy: caller.user, ...planned })
  await fleet.reached(creation.hostId, creation.response.revision)
  if (creation.response.guest) await note(creation.response.guest)
  return createdRow(creation, operationId)
}

/**
 * Checks that the template exists and is enabled. If the fleet view has no templates, the choice of a host fails later.
 * @throws {BerthError} `invalid_field`, `image_disabled`
 */
export function checkTemplate(view: FleetView, id: string): void {
  const known = [...view.templates()].map(({ template }) => template)
  const found = known.filter((template) => template.id === id)
  if (known.length === 0) return
  if (found.length === 0) throw noTemplate()
  if (found.every(({ disabled }) => disabled))
    throw new BerthError('conflict', 'image_disabled', 'template_id: the image is disabled', {
      field: 'template_id',
    })
}

/** Returns the operating system of a template. An unknown template counts as Linux. */
export function osOf(view: FleetView, id: string): Os {
  for (const { template } of view.templates()) if (template.id === id && template.os === 'windows') return 'windows'
  return 'linux'
}

export function noTemplate(): BerthError {
  return invalidField('template_id', 'template_id: this template does not exist')
}

function createdRow({ hostId, response }: GuestCreation, operationId: string): CreatedContainer {
  const { guest, sshPassword } = response
  if (guest === undefined)
    throw new BerthError('internal', 'agent_error', 'the answer of the host does not contain the created container')
  return {
    task_id: operationId,
    id: guest.id,
    uuid: guest.uuid,
    name: guest.name,
    status: statusOf({ guest, online: true }),
    action: 'create',
    ssh_port: guest.sshPort,
    ssh_password: sshPassword,
    hostId,
  }
}
