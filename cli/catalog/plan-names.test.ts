import { expect } from 'chai'
import { collectionsOf, planName } from './plan-names.js'

const collections = collectionsOf([
  '/containers/{id}/snapshots/{snapshot_id}',
  '/hosts/{id}',
  '/sub-users/{id}',
  '/webhooks/{id}/deliveries/{id}/redeliver',
])

describe('the name of a command', () => {
  for (const [method, path, operationId, command] of [
    ['GET', '/containers', 'listContainers', 'guest list'],
    ['POST', '/containers', 'createContainer', 'guest create'],
    ['GET', '/containers/{id}', 'getContainer', 'guest get'],
    ['POST', '/containers/{id}/start', 'startContainer', 'guest start'],
    ['PUT', '/containers/{id}/expiry', 'setExpiry', 'guest set-expiry'],
    ['GET', '/containers/{id}/usage', 'getContainerUsage', 'guest usage'],
    ['GET', '/containers/{id}/snapshots', 'getContainerSnapshots', 'guest snapshots'],
    ['POST', '/containers/{id}/snapshots', 'createSnapshot', 'snapshot create'],
    ['PUT', '/containers/{id}/snapshots/quota', 'setSnapshotQuota', 'snapshot set-quota'],
    ['DELETE', '/containers/{id}/snapshots/{snapshot_id}', 'deleteSnapshot', 'snapshot delete'],
    ['GET', '/webhooks/{id}/deliveries', 'listWebhookDeliveries', 'webhook deliveries'],
    ['POST', '/hosts/{id}/drain/cancel', 'cancelDrain', 'host cancel-drain'],
    ['POST', '/sub-users/{id}/rotate-password', 'rotateSubUserPassword', 'customer rotate-password'],
    ['GET', '/access-policy', 'getAccessPolicy', 'access-policy get'],
    ['GET', '/security/alerts', 'listSecurityAlerts', 'security alerts'],
    ['GET', '/version', 'getVersion', 'gateway version'],
    ['PUT', '/containers/{id}/resource-limit', 'updateResourceLimit', 'guest resize'],
  ] as const)
    it(`is "${command}" for ${method} ${path}`, () => {
      const { noun, verb } = planName({ method, path, operationId }, collections)
      expect(`${noun} ${verb}`).to.equal(command)
    })
})
