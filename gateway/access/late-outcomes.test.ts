import { expect } from 'chai'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { LateOutcomes } from './late-outcomes.js'

describe('audit outcomes that wait for the store', () => {
  let isUp: boolean
  let written: number[]
  let logged: string
  beforeEach(() => {
    isUp = true
    written = []
    logged = ''
  })
  const append = async (outcome: number) => {
    await Promise.resolve()
    if (!isUp) throw new Error('down')
    written.push(outcome)
  }
  const create = () => {
    const destination = new Writable({
      write(chunk: Buffer, _encoding, done) {
        logged += chunk.toString()
        done()
      },
    })
    return new LateOutcomes(append, pino(destination), 3)
  }

  it('are written in order and only once, even if several writes are requested at the same time', async () => {
    const late = create()
    for (const outcome of [1, 2, 3]) late.add(outcome)
    await Promise.all([late.flush(), late.flush()])
    await late.flush()
    expect(written).to.deep.equal([1, 2, 3])
  })

  it('continue to wait if the store fails again', async () => {
    const late = create()
    late.add(1)
    isUp = false
    await late.flush()
    late.add(2)
    isUp = true
    await late.flush()
    expect(written).to.deep.equal([1, 2])
    expect(logged).to.contain('cannot be written')
  })

  it('are dropped and logged, oldest first, if there are more outcomes than the limit permits', async () => {
    const late = create()
    for (const outcome of [1, 2, 3, 4, 5]) late.add(outcome)
    await late.flush()
    expect(written).to.deep.equal([3, 4, 5])
    expect(logged.match(/was dropped/g)).to.have.length(2)
  })
})
