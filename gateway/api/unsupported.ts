import { BerthError } from '../../shared/errors.js'
import { route, type Route } from '../http/route.js'

/*
 * What the interface has and this version does not. A client that asks for it learns so; a 404 would tell a billing
 * system that the container is gone.
 */

type Endpoint = readonly [method: Route['method'], path: string, scope: string, name: string]

const endpoints: Readonly<Record<string, readonly Endpoint[]>> = {
  Containers: [['GET', '/containers/{id}/history', 'container:read', 'getContainerHistory']],
  Snapshots: [['POST', '/containers/{id}/snapshots/schedule', 'snapshot:schedule', 'setSnapshotSchedule']],
  Images: [
    ['GET', '/images', 'image:read', 'listImages'],
    ['GET', '/images/enabled', 'image:read', 'listEnabledImages'],
    ['POST', '/images/custom', 'image:download', 'addCustomImage'],
    ['DELETE', '/images/custom', 'image:delete', 'removeCustomImage'],
    ['POST', '/images/download', 'image:download', 'downloadImage'],
    ['POST', '/images/cancel', 'image:download', 'cancelImageDownload'],
    ['DELETE', '/images/delete', 'image:delete', 'deleteImage'],
    ['PUT', '/images/toggle', 'image:toggle', 'toggleImage'],
  ],
  Security: [
    ['GET', '/security/alerts', 'security:read', 'listSecurityAlerts'],
    ['POST', '/security/check', 'security:check', 'checkSecurity'],
    ['GET', '/security/logs', 'security:read', 'listSecurityLogs'],
    ['GET', '/security/summary', 'security:read', 'getSecuritySummary'],
    ['GET', '/security/settings', 'security:read', 'getSecuritySettings'],
    ['PUT', '/security/settings', 'security:settings', 'updateSecuritySettings'],
  ],
  Settings: [
    ['GET', '/swap', 'swap:read', 'getSwap'],
    ['POST', '/swap', 'swap:manage', 'changeSwap'],
    ['GET', '/ssl', 'admin:access', 'getSsl'],
    ['PUT', '/ssl', 'admin:access', 'updateSsl'],
  ],
  Consoles: [
    ['POST', '/ssh-ticket', 'terminal:ssh', 'createSshTicket'],
    ['POST', '/vnc-ticket', 'terminal:vnc', 'createVncTicket'],
  ],
  Accounts: [
    ['POST', '/sub-user/create', 'subuser:create', 'createSubUser'],
    ['GET', '/sub-users', 'subuser:read', 'listSubUsers'],
    ['POST', '/sub-users/{id}/rotate-password', 'subuser:update', 'rotateSubUserPassword'],
    ['GET', '/sub-users/{id}/audit-logs', 'audit:read', 'listSubUserAuditLogs'],
    ['GET', '/sub-users/{id}/login-logs', 'loginlog:read', 'listSubUserLoginLogs'],
  ],
  Logs: [['GET', '/login-logs', 'loginlog:read', 'listLoginLogs']],
  Webhooks: [
    ['GET', '/webhooks', 'webhook:manage', 'listWebhooks'],
    ['POST', '/webhooks', 'webhook:manage', 'createWebhook'],
    ['GET', '/events', 'task:read', 'streamEvents'],
  ],
}

export function unsupportedRoutes(): Route[] {
  return Object.entries(endpoints).flatMap(([tag, list]) =>
    list.map((endpoint) => refusalRoute(tag, endpoint)),
  )
}

function refusalRoute(tag: string, [method, path, scope, name]: Endpoint): Route {
  return route({
    ...{ method, path, scope, name, tag },
    bound: 'same',
    ...(method === 'GET' ? {} : { audit: false }),
    summary: 'Does not exist in this version',
    unsupported: true,
    handle: () => {
      throw new BerthError('unimplemented', 'unsupported', `${method} ${path} does not exist in this version`)
    },
  })
}
