import { expect } from 'chai'
import { KeyedSingleFlight, SingleFlight } from './single-flight.js'

const messageOf = (error: Error): string => error.message

/** Work that ends when the test says so, and counts its runs. */
function controlled() {
  const work = { runs: 0, end: (_error?: Error): void => undefined, run: () => Promise.resolve(0) }
  work.run = () =>
    new Promise((resolve, reject) => {
      const run = ++work.runs
      work.end = (error) => (error ? reject(error) : resolve(run))
    })
  return work
}

describe('single flight', () => {
  it('gives concurrent callers the same result, and starts another run for a later call', async () => {
    const flight = new SingleFlight<number>()
    const work = controlled()
    const results = [flight.run(work.run), flight.run(work.run)]
    work.end()
    expect(await Promise.all(results)).to.deep.equal([1, 1])
    const next = flight.run(work.run)
    work.end()
    expect(await next).to.equal(2)
  })

  it('rejects all callers of a failed run, and accepts new calls afterwards', async () => {
    const flight = new SingleFlight<number>()
    const work = controlled()
    const results = [flight.run(work.run), flight.run(work.run)].map((result) => result.catch(messageOf))
    work.end(new Error('refused'))
    await flight.settled()
    expect(await Promise.all(results)).to.deep.equal(['refused', 'refused'])
    await flight.settled()
  })
})

describe('keyed single flight', () => {
  it('shares a run between callers of one key, but not with callers of other keys', async () => {
    const flights = new KeyedSingleFlight<string, number>()
    const [a, b] = [controlled(), controlled()]
    const results = [flights.run('a', a.run), flights.run('b', b.run), flights.run('a', a.run)]
    expect([flights.has('a'), flights.has('c'), flights.keys]).to.deep.equal([true, false, ['a', 'b']])
    a.end()
    b.end(new Error('refused'))
    expect(await Promise.all(results.map((result) => result.catch(messageOf)))).to.deep.equal([1, 'refused', 1])
    await Promise.all([flights.settled('a'), flights.settled('b')])
    expect(flights.keys).to.deep.equal([])
  })
})
