import { isBound } from '../../access/principal.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { BerthError } from '../../../shared/errors.js'
import { etagOf } from '../../http/reply.js'
import { route, type Answer, type Route } from '../../http/route.js'
import { ContainerPathSchema } from './containers.js'

export function screenshotRoute(fleet: Fleet): Route {
  return route({
    method: 'GET',
    path: '/containers/{id}/screenshot',
    name: 'getScreenshot',
    scope: 'terminal:vnc',
    bound: 'guest',
    subUser: 'allowed',
    tag: 'Containers',
    summary: 'Returns an image of the screen of a running virtual machine',
    params: ContainerPathSchema,
    produces: 'image/png',
    errors: ['unsupported', 'guest_not_running', 'policy_blocked', 'host_offline', 'agent_timeout'],
    handle: ({ caller, guest }) => {
      if (guest.guest.suspension && isBound(caller))
        throw new BerthError('forbidden', 'policy_blocked', 'the container is suspended: unsuspend it first')
      return takeScreenshot(fleet, guest)
    },
  })
}

async function takeScreenshot(fleet: Fleet, { hostId, guest }: GuestView): Promise<Answer<never>> {
  if (guest.virtualization !== 'kvm')
    throw new BerthError('invalid', 'unsupported', 'only virtual machines have a screen')
  const { image } = await fleet.agent(hostId).guests.getScreenshot({ uuid: guest.uuid })
  const body = Buffer.from(image)
  return { prepared: { body, etag: etagOf(body) }, headers: { 'Content-Type': 'image/png' } }
}
