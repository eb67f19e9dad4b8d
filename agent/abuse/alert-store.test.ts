import { expect } from 'chai'
import { Changes } from '../state/changes.js'
import { openDatabase } from '../state/database.js'
import type { AlertState } from './plan-merge.js'
import { AlertStore } from './alert-store.js'

const dayMs = 86_400_000
const nowMs = 1000 * dayMs

describe('stored alerts', () => {
  let changes: Changes
  let alerts: AlertStore
  beforeEach(() => {
    changes = new Changes(openDatabase(':memory:'))
    alerts = new AlertStore(changes)
  })

  const put = (detail: string, ageDays: number): string => {
    const atMs = nowMs - ageDays * dayMs
    const alert: AlertState = {
      guestUuid: 'uuid',
      guestId: 1,
      guestName: 'web',
      sourceIp: '10.0.0.2',
      targetIp: '*',
      targetPort: 0,
      type: 'ddos',
      severity: 'high',
      detail,
      firstAtMs: atMs,
      lastAtMs: atMs,
      count: 1,
      action: '',
      stopAtMs: 0,
      criticalAtMs: 0,
    }
    return alerts.put(undefined, alert)
  }
  const left = (): string[] => alerts.list(-1).map(({ detail }) => detail)

  it('are deleted if they are older than the given time', () => {
    for (const days of [91, 90, 89, 0]) put(`${days}`, days)
    alerts.prune(nowMs - 90 * dayMs, 100)
    expect(left()).to.have.members(['90', '89', '0'])
  })

  it('are deleted, oldest first, if their number exceeds the limit', () => {
    for (const days of [3, 1, 4, 0, 2]) put(`${days}`, days)
    alerts.prune(nowMs - 90 * dayMs, 2)
    expect(left()).to.have.members(['0', '1'])
  })

  it('are reported to watchers after they are deleted', () => {
    const gone = put('old', 100)
    const told: string[] = []
    changes.onChange(({ kind, key, removed }) => {
      if (kind === 'alert' && removed) told.push(key)
    })
    alerts.prune(nowMs - 90 * dayMs, 100)
    expect(told).to.deep.equal([gone])
  })
})
