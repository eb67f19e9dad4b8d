import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { isFromStandby, planSource, preferenceOf } from './plan-source.js'

const backupsOf = (...times: number[]): Guest['backups'] =>
  times.map((createdAtMs) => ({ id: `b${createdAtMs}`, targetId: 't', createdAtMs })) as Guest['backups']
const standby = { standbyId: 's1', hostId: 'b', takenAtMs: 50 }

describe('the source of a guest of a failed host', () => {
  for (const [name, backups, usable, unusable, backupId, prefersStandby] of [
    ['is the newest backup', [10, 30, 20], undefined, [], 'b30', false],
    ['is the standby if it is newer than the backup', [10], standby, [], 'b10', true],
    ['is the backup if it is newer than the standby', [60], standby, [], 'b60', false],
    ['is the standby if there is no backup', [], standby, [], undefined, true],
    ['is the backup if the standby has failed', [10], standby, ['s1'], 'b10', false],
    ['is the backup if the host of the standby refused the guest', [10], standby, ['b'], 'b10', false],
    ['is the standby, although it has failed, if there is no backup', [], standby, ['s1'], undefined, true],
    ['is an older backup if the newest one is damaged', [10, 30], undefined, ['b30'], 'b10', false],
    ['is missing', [], undefined, [], undefined, false],
  ] as const)
    it(name, () => {
      const source = planSource(backupsOf(...backups), usable, unusable)
      expect([source.backup?.backupId, source.prefersStandby]).to.deep.equal([backupId, prefersStandby])
    })

  it('binds the guest to the host of the standby, unless it has a backup', () => {
    expect(preferenceOf(planSource([], standby))).to.deep.equal({ toHostId: 'b', orElsewhere: false })
    expect(preferenceOf(planSource(backupsOf(10), standby))).to.deep.equal({ toHostId: 'b', orElsewhere: true })
    expect(preferenceOf(planSource(backupsOf(60), standby))).to.deep.equal({})
  })

  it('is the standby only on its host', () => {
    const source = planSource(backupsOf(10), standby)
    expect(['b', 'c'].map((host) => isFromStandby(source, host))).to.deep.equal([true, false])
  })
})
