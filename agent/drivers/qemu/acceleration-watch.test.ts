import { expect } from 'chai'
import { pino } from 'pino'
import type { Acceleration } from './acceleration.js'
import { AccelerationWatch } from './acceleration-watch.js'

const kvm: Acceleration = { kind: 'kvm', reason: '', groupId: 104 }
const hangs: Acceleration = { kind: 'tcg', reason: '/dev/kvm: a test guest did not run within 3000 ms' }
const missing: Acceleration = { kind: 'tcg', reason: '/dev/kvm is not there' }

describe('the acceleration of virtual machines on a host ("kvm" or "tcg")', () => {
  const log = pino({ level: 'silent' })

  /** Opens a watch whose checks have these results, in this order. The last result repeats. */
  async function watchOf(...finds: (Acceleration | Error)[]) {
    let asked = 0
    const find = async (): Promise<Acceleration> => {
      const found = finds[Math.min(asked++, finds.length - 1)]!
      if (found instanceof Error) throw found
      return found
    }
    const watch = await AccelerationWatch.open({ log, find, confirmMs: 1 })
    return { watch, asked: () => asked }
  }

  for (const [what, finds, after] of [
    ['becomes "kvm" after the first successful check of KVM', [missing, kvm], kvm],
    ['becomes "tcg" after two failed checks of KVM', [kvm, hangs, hangs], hangs],
    ['stays "kvm" after a single failed check', [kvm, hangs, kvm], kvm],
    ['is reported with the latest reason why KVM does not work', [missing, hangs], hangs],
    ['stays the same if KVM cannot be checked', [kvm, new Error('no memory')], kvm],
  ] as const)
    it(what, async () => {
      const { watch } = await watchOf(...finds)
      expect(watch.now).to.equal(finds[0])
      await watch.look()
      expect(watch.now).to.equal(after)
      watch.close()
    })

  it('is checked only once for all concurrent callers', async () => {
    const { watch, asked } = await watchOf(missing)
    await Promise.all([watch.look(), watch.look(), watch.look()])
    expect(asked()).to.equal(2)
    watch.close()
  })

  it('stays the same if the agent stops during a check of KVM', async () => {
    const find = async (): Promise<Acceleration> => (first ? ((first = false), kvm) : hangs)
    let first = true
    const watch = await AccelerationWatch.open({ log, find, confirmMs: 60_000 })
    const looking = watch.look()
    watch.close()
    await looking
    expect(watch.now).to.equal(kvm)
  })
})
