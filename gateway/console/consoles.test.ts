import { expect } from 'chai'
import { Consoles, type ConsoleHolder } from './consoles.js'

/** Somebody with a console of a guest. */
const holder = (principal: string, guestUuid: string): ConsoleHolder =>
  ({ grant: { kind: 'ssh', guestUuid, principal, credential: principal } }) as unknown as ConsoleHolder

describe('how many consoles there may be', () => {
  const left: (() => void)[] = []
  let consoles: Consoles
  beforeEach(() => {
    consoles = new Consoles({} as ConstructorParameters<typeof Consoles>[0])
  })
  afterEach(() => left.splice(0).forEach((leave) => leave()))

  const enter = (principal: string, guestUuid: string): void =>
    void left.push(consoles.enter(holder(principal, guestUuid)).leave)

  it('five of one caller for a guest, more for another', () => {
    for (let n = 0; n < 5; n++) enter('key:1', 'a')
    expect(() => enter('key:1', 'a'))
      .to.throw()
      .with.property('code', 'too_many_consoles')
    enter('key:1', 'b')
    enter('key:2', 'a')
    left.shift()?.()
    enter('key:1', 'a')
  })

  it('ten for a guest', () => {
    for (let n = 0; n < 10; n++) enter(`key:${n}`, 'a')
    expect(() => enter('key:10', 'a'))
      .to.throw()
      .with.property('code', 'too_many_consoles')
    enter('key:10', 'b')
  })

  it('five hundred at a gateway', () => {
    for (let n = 0; n < 500; n++) enter('key:1', `guest-${n >> 2}`)
    expect(consoles.size).to.equal(500)
    expect(() => enter('key:1', 'another'))
      .to.throw()
      .with.property('code', 'too_many_consoles')
  })
})
