import { expect } from 'chai'
import { nextLoad, type Load } from './load-average.js'

describe('the load averages of a guest', () => {
  it('approach the number of running tasks, fastest for the average of one minute', () => {
    let load: Load = [0, 0, 0]
    for (let i = 0; i < 12; i++) load = nextLoad(load, 2, 5_000)
    expect(load[0]).to.be.closeTo(2 * (1 - Math.exp(-1)), 1e-9)
    expect(load[0]).to.be.greaterThan(load[1])
    expect(load[1]).to.be.greaterThan(load[2])
  })

  it('are the same whether the load is computed in few or in many steps', () => {
    const once = nextLoad([1, 1, 1], 3, 60_000)
    const twice = nextLoad(nextLoad([1, 1, 1], 3, 30_000), 3, 30_000)
    for (const i of [0, 1, 2] as const) expect(once[i]).to.be.closeTo(twice[i], 1e-9)
  })
})
