import { Type } from 'typebox'
import { BerthError, invalidField } from '../../shared/errors.js'
import type { FleetView, HostView } from '../fleet/contract.js'

const hostQuery = (description: string) =>
  Type.Object({ host_id: Type.Optional(Type.String({ maxLength: 64, description })) })

/** For routes that use `chooseHost`. */
export const HostQuerySchema = hostQuery(
  'Id of the host. Default: the first host of the fleet that is online. The answer contains the id of the host that was used.',
)

/** For routes that use all hosts by default. */
export const AllHostsQuerySchema = hostQuery('Id of the host. Default: all hosts.')
export const OnlineHostsQuerySchema = hostQuery(
  'Id of the host. Default: the host of the named container, or else all hosts that are online.',
)

/**
 * Returns the named host. If none is named, returns the first online host, or else the first host.
 * @throws {BerthError} `invalid_field` if the named host is unknown, `host_offline` if there are no hosts
 */
export function chooseHost(view: FleetView, hostId: string | undefined): HostView {
  if (hostId !== undefined) return getNamedHost(view, hostId)
  const hosts = view.hosts()
  const first = hosts.find((host) => host.state === 'online') ?? hosts[0]
  if (first === undefined)
    throw new BerthError('unavailable', 'host_offline', 'no host has joined yet: add a host first')
  return first
}

/** Returns the host with this id. @throws {BerthError} `invalid_field` if it is unknown */
export function getNamedHost(view: FleetView, hostId: string): HostView {
  const host = view.findHost(hostId)
  if (host === undefined) throw invalidField('host_id', 'host_id: this host does not exist')
  return host
}
