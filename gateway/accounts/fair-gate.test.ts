import { expect } from 'chai'
import { FairGate, type GateClaim } from './fair-gate.js'

const limits = { atOnce: 2, othersAtOnce: 1, strangersAtOnce: 2, maxWaiting: 10, maxStrangers: 10, maxWaitMs: 60_000 }

describe('the queue of password checks', () => {
  /** A gate, and functions to enter work and to end it. `began` lists the work in the order of its start. */
  const labOf = (given: Partial<typeof limits> = {}) => {
    const gate = new FairGate({ ...limits, ...given })
    const began: string[] = []
    const ends = new Map<string, () => void>()
    const answers = new Map<string, string>()
    const enter = (name: string, claim: Partial<GateClaim> = {}): void => {
      const whole: GateClaim = { kind: 'login', account: name, source: name, ...claim }
      const work = () => {
        began.push(name)
        return new Promise<void>((resolve) => ends.set(name, resolve))
      }
      void gate.run(whole, work).then((done) => answers.set(name, done ? 'done' : 'refused'))
    }
    const settle = () => new Promise((resolve) => setImmediate(resolve))
    const end = async (name: string): Promise<void> => {
      ends.get(name)?.()
      await settle()
    }
    const endAll = async (): Promise<string[]> => {
      await settle()
      for (let at = 0; at < began.length; at++) await end(began[at]!)
      return began
    }
    return { gate, began, answers, enter, end, endAll, settle }
  }

  it('limits the number of concurrent checks', async () => {
    const { began, enter, end, settle } = labOf()
    for (const name of ['a', 'b', 'c']) enter(name)
    await settle()
    expect(began).to.deep.equal(['a', 'b'])
    await end('b')
    expect(began).to.deep.equal(['a', 'b', 'c'])
  })

  it('lets accounts take turns, so that an account with many checks does not delay other accounts', async () => {
    const { enter, endAll } = labOf({ atOnce: 1 })
    for (const n of [1, 2, 3, 4]) enter(`flood ${n}`, { account: 'flood', source: `s${n}` })
    enter('owner')
    enter('other')
    expect(await endAll()).to.deep.equal(['flood 1', 'owner', 'other', 'flood 2', 'flood 3', 'flood 4'])
  })

  it('lets addresses take turns if several addresses try to log in to one account', async () => {
    const { enter, endAll } = labOf({ atOnce: 1 })
    for (const n of [1, 2, 3]) enter(`guess ${n}`, { account: 'owner', source: 'attacker' })
    enter('owner', { account: 'owner', source: 'home' })
    expect(await endAll()).to.deep.equal(['guess 1', 'owner', 'guess 2', 'guess 3'])
  })

  it('does not let unknown devices delay a login from a known device to the same account', async () => {
    const { enter, endAll } = labOf({ atOnce: 1 })
    for (const n of [1, 2, 3]) enter(`guess ${n}`, { account: 'owner', source: `s${n}` })
    enter('stranger')
    enter('device', { account: 'owner', source: 'home', known: true })
    expect(await endAll()).to.deep.equal(['guess 1', 'device', 'stranger', 'guess 2', 'guess 3'])
  })

  it('runs logins before other work, and keeps a slot free for logins', async () => {
    const { began, enter, endAll, settle } = labOf()
    for (const n of [1, 2, 3]) enter(`rotation ${n}`, { kind: 'other', account: 'reseller' })
    await settle()
    expect(began, 'one slot is reserved for logins').to.deep.equal(['rotation 1'])
    for (const n of [1, 2, 3]) enter(`login ${n}`)
    expect(await endAll()).to.deep.equal(['rotation 1', 'login 1', 'login 2', 'login 3', 'rotation 2', 'rotation 3'])
  })

  it('runs other work from time to time even during a flood of logins', async () => {
    const { enter, endAll } = labOf({ atOnce: 1, maxStrangers: 100 })
    enter('first')
    enter('rotation', { kind: 'other' })
    for (let n = 0; n < 40; n++) enter(`login ${n}`)
    expect((await endAll()).indexOf('rotation')).to.equal(16)
  })

  it('rejects work of the account with the most waiting work if the queue is full and another account needs space', async () => {
    const { answers, enter, endAll, settle } = labOf({ atOnce: 1, maxStrangers: 3 })
    for (const n of [1, 2, 3, 4]) enter(`flood ${n}`, { account: 'flood', source: 'one' })
    enter('owner')
    await settle()
    expect([...answers]).to.deep.equal([['flood 4', 'refused']])
    expect(await endAll()).to.deep.equal(['flood 1', 'owner', 'flood 2', 'flood 3'])
  })

  it('accepts a login from the owner’s new address while many other addresses guess the password', async () => {
    const { answers, enter, settle } = labOf({ atOnce: 1, maxStrangers: 3 })
    for (const n of [1, 1, 2, 3]) enter(`guess ${n}`, { account: 'owner', source: `s${n}` })
    enter('owner', { account: 'owner', source: 'home' })
    await settle()
    expect([...answers]).to.deep.equal([['guess 1', 'refused']])
  })

  describe('during a flood of logins with new names and addresses', () => {
    const flood = (enter: (name: string) => void, count: number): void => {
      for (let n = 1; n <= count; n++) enter(`stranger ${n}`)
    }

    it('keeps slots free for logins from known devices', async () => {
      const { began, enter, settle } = labOf({ atOnce: 4, strangersAtOnce: 2 })
      flood(enter, 5)
      enter('owner', { known: true })
      await settle()
      expect(began).to.deep.equal(['stranger 1', 'stranger 2', 'owner'])
    })

    it('runs logins from known devices before earlier logins from unknown devices', async () => {
      const { enter, endAll } = labOf({ atOnce: 1 })
      flood(enter, 3)
      for (const name of ['ada', 'bob']) enter(name, { known: true })
      expect(await endAll()).to.deep.equal(['stranger 1', 'ada', 'bob', 'stranger 2', 'stranger 3'])
    })

    it('runs one login from an unknown device after every few logins from known devices', async () => {
      const { enter, endAll } = labOf({ atOnce: 1 })
      flood(enter, 2)
      for (let n = 0; n < 8; n++) enter(`known ${n}`, { known: true })
      expect((await endAll()).indexOf('stranger 2')).to.equal(5)
    })

    it('rejects only logins from unknown devices when the queue of unknown devices is full', async () => {
      const { gate, answers, enter, settle } = labOf({ atOnce: 1, maxStrangers: 3 })
      flood(enter, 3)
      const claim = { kind: 'login', account: 'new', source: 'new' } as const
      expect(gate.refuses(claim), 'before it is full').to.equal(false)
      enter('last')
      expect(gate.refuses(claim), 'when it is full').to.equal(true)
      expect(gate.refuses({ ...claim, known: true }), 'a known one').to.equal(false)
      enter('late')
      enter('owner', { known: true })
      await settle()
      expect([...answers]).to.deep.equal([['late', 'refused']])
    })

    it('runs a login to a rarely used account before all logins that arrive later with new names', async () => {
      const { began, enter, endAll, end, settle } = labOf({ atOnce: 1, maxStrangers: 100 })
      enter('owner 1', { account: 'owner', source: 'home' })
      for (let n = 0; n < 40; n++) enter(`earlier ${n}`)
      await settle()
      for (let n = 0; n < 36; n++) await end(began[n]!)
      enter('owner 2', { account: 'owner', source: 'home' })
      for (let n = 0; n < 40; n++) enter(`later ${n}`)
      const order = await endAll()
      expect(order.indexOf('owner 2')).to.be.lessThan(order.indexOf('later 0'))
    })

    it('accepts the first login to an account while several logins to another account wait', async () => {
      const { gate, enter } = labOf({ atOnce: 1, maxStrangers: 3 })
      for (const n of [1, 2, 3, 4]) enter(`flood ${n}`, { account: 'flood', source: `s${n}` })
      expect(gate.refuses({ kind: 'login', account: 'new', source: 'new' })).to.equal(false)
    })
  })

  it('rejects work that waited too long', async () => {
    const { answers, enter } = labOf({ atOnce: 1, maxWaitMs: 5 })
    enter('running')
    enter('waiting')
    while (answers.size === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    expect([...answers]).to.deep.equal([['waiting', 'refused']])
  })

  it('runs the next check after a check has failed', async () => {
    const gate = new FairGate({ ...limits, atOnce: 1 })
    const claim: GateClaim = { kind: 'login', account: 'a', source: 's' }
    const failed = gate.run(claim, () => Promise.reject(new Error('x'))).catch((error: Error) => error.message)
    expect(await failed).to.equal('x')
    expect(await gate.run(claim, () => Promise.resolve('later'))).to.deep.equal({ value: 'later' })
  })
})
