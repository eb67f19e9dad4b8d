import { Type } from 'typebox'
import { BerthError, invalidField } from '../../shared/errors.js'
import type { FleetView, HostView } from '../fleet/contract.js'

export const HostQuerySchema = Type.Object({
  host_id: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'Id of the host. Default: the first host. The answer contains the id that was used.',
    }),
  ),
})

/**
 * The named host; without a name the first online one, or else the first.
 * @throws {BerthError} `invalid_field` for an unknown one, `host_offline` when there is no host
 */
export function chooseHost(view: FleetView, hostId: string | undefined): HostView {
  if (hostId !== undefined) return getNamedHost(view, hostId)
  const hosts = view.hosts()
  const first = hosts.find((host) => host.state === 'online') ?? hosts[0]
  if (first === undefined) throw new BerthError('unavailable', 'host_offline', 'no host has joined yet')
  return first
}

/** @throws {BerthError} `invalid_field` */
export function getNamedHost(view: FleetView, hostId: string): HostView {
  const host = view.findHost(hostId)
  if (host === undefined) throw invalidField('host_id', 'host_id: this host does not exist')
  return host
}
