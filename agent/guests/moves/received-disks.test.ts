import { expect } from 'chai'
import { unmeasuredSpace } from '../record/snapshots-and-backups.js'
import { planStreamBytes } from './received-disks.js'

const gib = 1024 ** 3
const limits = {
  vcpuMilli: 1000,
  ramMb: 256,
  diskGb: 4,
  networkDownMbps: 0,
  networkUpMbps: 0,
  ioReadMbps: 0,
  ioWriteMbps: 0,
}
const record = {
  spec: { virtualization: 'lxc', templateId: 'debian-12', limits },
  snapshotSpace: unmeasuredSpace,
} as const

describe('the size limit of the next disk stream of a move', () => {
  it('is the size of the disk plus some overhead if there is only one stream', () => {
    expect(planStreamBytes(record, {})).to.equal(6 * gib)
  })

  it('is what remains of the size of the disk, its snapshots and the transfer rounds after all earlier streams', () => {
    expect(planStreamBytes(record, { a: 30 * gib })).to.equal(6 * gib)
    expect(planStreamBytes(record, { a: 30 * gib, b: 5 * gib })).to.equal(gib)
    expect(planStreamBytes(record, { a: 36 * gib, b: 5 * gib })).to.equal(0)
  })

  it('is higher if the guest may have more space for its snapshots', () => {
    const snapshotSpace = { ...unmeasuredSpace, limitBytes: 100 * gib }
    expect(planStreamBytes({ ...record, snapshotSpace }, { a: 41 * gib })).to.equal(6 * gib)
  })

  it('refuses a move with more snapshots than the guest and the transfer rounds can have', () => {
    const many = Object.fromEntries(Array.from({ length: 1100 }, (_, index) => [`s${index}`, 1]))
    expect(() => planStreamBytes(record, many))
      .to.throw()
      .with.property('code', 'bad_stream')
  })
})
