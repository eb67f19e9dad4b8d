import { expect } from 'chai'
import { planSysctls } from './plan-sysctls.js'

const names = (has: ReadonlyMap<string, number>): string[] => planSysctls(has).map(({ name }) => name)

describe('the plan of the kernel limits of the host', () => {
  const all = planSysctls(new Map())

  it('raises values that are too low, and keeps equal or higher values', () => {
    const converged = new Map(all.map(({ name, value }) => [name, value]))
    expect(names(converged)).to.deep.equal([])
    expect(names(new Map(converged).set('kernel.pid_max', 32_768))).to.deep.equal(['kernel.pid_max'])
    expect(names(new Map(converged).set('kernel.pid_max', 99_999_999))).to.deep.equal([])
  })

  it('keeps the thresholds of the neighbour table in ascending order', () => {
    for (const family of ['ipv4', 'ipv6']) {
      const values = [1, 2, 3].map(
        (n) => all.find(({ name }) => name === `net.${family}.neigh.default.gc_thresh${n}`)?.value ?? 0,
      )
      expect(values).to.deep.equal([...values].sort((a, b) => a - b))
    }
  })
})
