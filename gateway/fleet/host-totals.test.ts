import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { HostTotals } from './host-totals.js'

describe('the resources that a host’s guests use in total', () => {
  it('include the space of snapshots in addition to the size of disks', () => {
    const totals = new HostTotals()
    const limits = { vcpuMilli: 500, ramMb: 256, diskGb: 10 }
    const guest = Guest.fromPartial({ status: 'running', limits, snapshotSpaceUsedBytes: 2.5 * 1024 ** 3 })
    totals.add(guest)
    expect(totals.allocated).to.deep.equal({ vcpuMilli: 500, ramMb: 256, diskGb: 13 })
    totals.remove(guest)
    expect(totals.allocated).to.deep.equal({ vcpuMilli: 0, ramMb: 0, diskGb: 0 })
  })
})
