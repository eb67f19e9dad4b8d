import { expect } from 'chai'
import { planBoot, planChange, planLimits, planRestore, planUser } from './plan-kernel-record.js'

const forwarding = 'net/ipv6/conf/all/forwarding'
const acceptRa = 'net/ipv6/conf/eth0/accept_ra'

describe('record of kernel settings', () => {
  const none = { boot: 'b', users: [], before: {}, set: {} }
  const changed = planChange(none, { path: forwarding, before: 0, value: 1 })

  it('notes limits that are about to be raised, and nothing else', () => {
    const has = new Map(planLimits(new Map()).map(({ path, value }) => [path, value]))
    expect(planLimits(has)).to.deep.equal([])
    expect([...has.keys()]).to.not.include(forwarding)
    has.set('kernel/pid_max', 32_768).set('fs/inotify/max_user_watches', 9_000_000)
    expect(planLimits(has)).to.deep.equal([{ path: 'kernel/pid_max', before: 32_768, value: 4_194_304 }])
  })

  it('notes an agent once', () => {
    expect(planUser(planUser(none, '/a'), '/a').users).to.deep.equal(['/a'])
  })

  it('nothing that no agent wrote is put back', () => {
    expect(planRestore(none, new Map([[forwarding, 1]]))).to.deep.equal([])
  })

  it('keeps the first value while agents change their own, and takes what somebody else set since', () => {
    const again = planChange(changed, { path: forwarding, before: 1, value: 2 })
    expect(again).to.deep.include({ before: { [forwarding]: 0 }, set: { [forwarding]: 2 } })
    const others = planChange(changed, { path: forwarding, before: 3, value: 1 })
    expect(others).to.deep.include({ before: { [forwarding]: 3 }, set: { [forwarding]: 1 } })
  })

  it('keeps no values over a boot, but the agents', () => {
    const record = planUser(changed, '/a')
    expect(planBoot(record, 'b')).to.equal(record)
    expect(planBoot(record, 'c')).to.deep.equal({ boot: 'c', users: ['/a'], before: {}, set: {} })
  })

  it('puts back only what is still as an agent set it, the last first', () => {
    const record = planChange(planChange(none, { path: acceptRa, before: 1, value: 2 }), {
      path: forwarding,
      before: 0,
      value: 1,
    })
    const both = [
      { path: forwarding, value: 0 },
      { path: acceptRa, value: 1 },
    ]
    expect(
      planRestore(
        record,
        new Map([
          [acceptRa, 2],
          [forwarding, 1],
        ]),
      ),
    ).to.deep.equal(both)
    expect(
      planRestore(
        record,
        new Map([
          [acceptRa, 0],
          [forwarding, 1],
        ]),
      ),
    ).to.deep.equal(both.slice(0, 1))
  })
})
