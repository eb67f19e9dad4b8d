import { expect } from 'chai'
import { parseChange } from './changes.ts'

describe('a change that an event reports to the panel', () => {
  for (const [type, data, topics, guest] of [
    ['guest.updated', { id: 7 }, ['guests'], 7],
    ['guest.created', { id: 7 }, ['guests', 'hosts'], 7],
    ['guest.removed', { id: 7 }, ['guests', 'hosts'], 7],
    ['guest.host', { host_id: 'a', online: false }, ['guests', 'hosts'], 0],
    ['task.running', { action: 'snapshot-create', container_id: 7, image_id: '' }, ['tasks'], 7],
    ['task.done', { action: 'snapshot-create', container_id: 7, image_id: '' }, ['tasks', 'snapshots'], 7],
    ['task.failed', { action: 'backup-create', container_id: 7 }, ['tasks', 'backups', 'snapshots'], 7],
    ['task.progress', { action: 'image-download', container_id: 0, image_id: 'x' }, ['tasks', 'images'], 0],
    ['task.done', { action: 'swap', container_id: 0, image_id: '' }, ['tasks', 'hosts', 'host-usage'], 0],
    ['task.done', { action: 'start', container_id: 7, image_id: '' }, ['tasks'], 7],
    ['task.done', { action: 'delete', container_id: 7, image_id: '' }, ['tasks', 'snapshots'], 7],
    ['task.removed', { task_id: 'x' }, ['tasks'], 0],
    ['host.offline', { id: 'a' }, ['hosts'], 0],
    ['usage.host', { host_id: 'a' }, ['host-usage'], 0],
    ['maintenance.started', { id: 'x', host_id: 'a' }, ['guests', 'hosts'], 0],
    ['alert.raised', { id: 'x', container_id: 7 }, ['alerts'], 7],
  ] as const)
    it(`concerns ${topics.join(', ')} for the event ${type} with ${JSON.stringify(data)}`, () => {
      const change = parseChange(JSON.stringify({ type, data }))
      expect(change).to.deep.equal({ type, data, topics, guest })
    })
})
