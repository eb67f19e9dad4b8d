import { expect } from 'chai'
import { listHostSettings, planRecord, planRestore } from './plan-kernel-record.js'

describe('record of kernel settings', () => {
  const none = { users: [], before: {} }

  it('covers what the host shares, not what goes with the bridge', () => {
    const paths = [...listHostSettings().keys()]
    expect(paths).to.include.members(['net/ipv4/ip_forward', 'kernel/pid_max', 'fs/inotify/max_user_watches'])
    expect(paths.filter((path) => path.includes('/conf/'))).to.deep.equal([])
  })

  it('notes what is about to change, and nothing else', () => {
    const has = new Map([
      ['net/ipv4/ip_forward', 0],
      ['kernel/pid_max', 4_194_304],
      ['fs/inotify/max_user_watches', 9_000_000],
      ['net/ipv4/neigh/default/gc_thresh1', 128],
    ])
    expect(planRecord(none, '/a', has)).to.deep.equal({
      users: ['/a'],
      before: { 'net/ipv4/ip_forward': 0, 'net/ipv4/neigh/default/gc_thresh1': 128 },
    })
  })

  it('keeps the first values when an agent starts again, and takes those of a new boot', () => {
    const record = { users: ['/a'], before: { 'kernel/pid_max': 32_768 } }
    expect(planRecord(record, '/a', new Map([['kernel/pid_max', 4_194_304]]))).to.deep.equal(record)
    expect(planRecord(record, '/b', new Map([['kernel/pid_max', 65_536]]))).to.deep.equal({
      users: ['/a', '/b'],
      before: { 'kernel/pid_max': 65_536 },
    })
  })

  it('puts back only what is still as an agent set it', () => {
    const record = { users: ['/a'], before: { 'net/ipv4/ip_forward': 0, 'kernel/pid_max': 32_768 } }
    const has = new Map([
      ['net/ipv4/ip_forward', 1],
      ['kernel/pid_max', 100_000],
    ])
    expect(planRestore(record, has)).to.deep.equal([{ path: 'net/ipv4/ip_forward', value: 0 }])
  })

  it('puts back a threshold of either of its two authors', () => {
    const path = 'net/ipv4/neigh/default/gc_thresh1'
    for (const value of [4096, 8192])
      expect(planRestore({ users: [], before: { [path]: 128 } }, new Map([[path, value]]))).to.have.length(1)
  })
})
