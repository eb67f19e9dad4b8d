import { expect } from 'chai'
import {
  planBoot,
  planSettingChange,
  planLeave,
  planHostLimits,
  planRelease,
  planUser,
  type KernelRecord,
} from './plan-kernel-record.js'

const forwarding = 'net/ipv6/conf/all/forwarding'
const acceptRa = 'net/ipv6/conf/eth0/accept_ra'
const pidMax = 'kernel/pid_max'
/** Inode numbers of two network namespaces. */
const [host, guest] = [4_026_531_840, 4_026_532_000]

describe('the record of changed kernel settings', () => {
  const none: KernelRecord = { boot: 'b', users: {}, before: {}, set: {} }
  const forwards = { path: forwarding, before: 0, value: 1 }
  const changed = planSettingChange(none, host, forwards)
  const key = `${host}:${forwarding}`
  const everywhere = (): boolean => true

  it('contains the former value of a kernel limit only if an agent is about to raise this limit', () => {
    const has = new Map(planHostLimits(new Map()).map(({ path, value }) => [path, value]))
    expect(planHostLimits(has)).to.deep.equal([])
    expect([...has.keys()]).to.not.include(forwarding)
    has.set('kernel/pid_max', 32_768).set('fs/inotify/max_user_watches', 4_000_000_000)
    expect(planHostLimits(has)).to.deep.equal([{ path: 'kernel/pid_max', before: 32_768, value: 4_194_304 }])
  })

  it('contains each agent only once, with its network namespace', () => {
    const there = planUser(none, { stateDir: '/a', netns: guest })
    expect(planUser(there, { stateDir: '/a', netns: host }).users).to.deep.equal({ '/a': host })
  })

  it('contains the value from before the agents’ first change, or a later value set by another program', () => {
    const again = planSettingChange(changed, host, { path: forwarding, before: 1, value: 2 })
    expect(again).to.deep.include({ before: { [key]: 0 }, set: { [key]: 2 } })
    const others = planSettingChange(changed, host, { path: forwarding, before: 3, value: 1 })
    expect(others).to.deep.include({ before: { [key]: 3 }, set: { [key]: 1 } })
  })

  it('contains a network setting once per namespace, and any other setting once', () => {
    const both = [host, guest].reduce(
      (record, netns) => planSettingChange(record, netns, { path: pidMax, before: netns === host ? 7 : 8, value: 8 }),
      planSettingChange(changed, guest, { path: forwarding, before: 5, value: 1 }),
    )
    expect(both.before).to.deep.equal({ [key]: 0, [`${guest}:${forwarding}`]: 5, [pidMax]: 7 })
  })

  it('loses its kernel settings when the host boots, but keeps its list of agents', () => {
    const record = planUser(changed, { stateDir: '/a', netns: host })
    expect(planBoot(record, 'b')).to.equal(record)
    expect(planBoot(record, 'c')).to.deep.equal({ boot: 'c', users: { '/a': 0 }, before: {}, set: {} })
  })

  describe('while an agent continues to run', () => {
    const a = { stateDir: '/a', netns: host }
    const unused = { isThere: everywhere, isUnused: (path: string) => path === forwarding }
    const record = planUser(planSettingChange(changed, host, { path: acceptRa, before: 1, value: 2 }), a)

    it('is used to restore only settings that the agent no longer needs, and still contains all other settings', () => {
      const left = planRelease(record, a, unused)
      expect(left.restore).to.deep.equal([forwards])
      expect(left.record.before).to.deep.equal({ [`${host}:${acceptRa}`]: 1 })
    })

    it('is not used while another agent uses the same network namespace', () => {
      const shared = planUser(record, { stateDir: '/b', netns: host })
      expect(planRelease(shared, a, unused)).to.deep.equal({ record: shared, restore: [] })
      const elsewhere = planUser(record, { stateDir: '/b', netns: guest })
      expect(planRelease(elsewhere, a, unused).restore).to.deep.equal([forwards])
      expect(planRelease(shared, a, { ...unused, isThere: () => false }).restore).to.deep.equal([forwards])
    })
  })

  describe('when an agent is removed', () => {
    const a = { stateDir: '/a', netns: host }
    const record = planSettingChange(
      planSettingChange(planUser(changed, a), host, { path: acceptRa, before: 1, value: 2 }),
      host,
      { path: pidMax, before: 7, value: 8 },
    )
    const networks = [
      { path: acceptRa, before: 1, value: 2 },
      { path: forwarding, before: 0, value: 1 },
    ]
    const kernels = [{ path: pidMax, before: 7, value: 8 }]

    it('is used to restore all settings in reverse order if no other agent exists', () =>
      expect(planLeave(record, a, everywhere)).to.deep.equal({
        record: undefined,
        restore: [...kernels, ...networks],
      }))

    it('restores nothing if it is empty', () => expect(planLeave(none, a, everywhere).restore).to.deep.equal([]))

    for (const [what, netns, restore] of [
      ['is not used if another agent has the same network namespace', host, []],
      ['is used to restore only network settings if the other agent has another network namespace', guest, networks],
      ['is not used if another agent has not started since the host booted', 0, []],
    ] as const)
      it(what, () => {
        const left = planLeave(planUser(record, { stateDir: '/b', netns }), a, everywhere)
        expect(left.restore).to.deep.equal(restore)
        expect(left.record?.users).to.deep.equal({ '/b': netns })
        const kept = restore.length > 0 ? { [pidMax]: 7 } : record.before
        expect(left.record?.before).to.deep.equal(kept)
      })

    it('is not used for settings of another network namespace', () => {
      const there = planUser(none, { stateDir: '/b', netns: guest })
      const { restore } = planLeave(planSettingChange(there, guest, forwards), a, () => false)
      expect(restore).to.deep.equal([])
    })

    it('is deleted if the only other agent has no state directory any more', () =>
      expect(planLeave(planUser(record, { stateDir: '/b', netns: host }), a, () => false).record).to.equal(undefined))
  })
})
