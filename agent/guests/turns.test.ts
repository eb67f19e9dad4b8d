import { expect } from 'chai'
import { Turns } from './turns.js'

describe('turns', () => {
  it('run one after another for one guest, in order, beside those of others, also after a failure', async () => {
    const turns = new Turns()
    const seen: string[] = []
    let release = (): void => undefined
    const held = new Promise<void>((done) => (release = done))
    const first = turns.run('a', async () => {
      seen.push('a1')
      await held
      seen.push('a1 ends')
      throw new Error('refused')
    })
    const second = turns.run('a', () => seen.push('a2'))
    await turns.run('b', () => seen.push('b'))
    expect(seen).to.deep.equal(['a1', 'b'])
    release()
    expect(await first.catch((error: Error) => error.message)).to.equal('refused')
    await second
    expect(seen).to.deep.equal(['a1', 'b', 'a1 ends', 'a2'])
  })

  it('give back what the work gives', async () => {
    expect(await new Turns().run('a', () => 7)).to.equal(7)
  })
})
