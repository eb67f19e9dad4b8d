import { expect } from 'chai'
import { Consoles, type ConsoleHolder } from './consoles.js'

/** Creates a caller. `key:1/2`: a key that `key:1` created. `admin…`: an administrator, who has no limits. */
const callerOf = (principal: string) => {
  const isAdmin = principal.startsWith('admin')
  return { kind: 'session', root: principal.replace(/\/.*/, ''), accountKind: isAdmin ? 'admin' : 'sub_user' }
}

/** A console of this caller to this guest. */
const holder = (principal: string, guestUuid: string): ConsoleHolder =>
  ({
    grant: { kind: 'ssh', guestUuid, principal, credential: principal },
    caller: callerOf(principal),
  }) as unknown as ConsoleHolder

describe('the limits of consoles', () => {
  const left: (() => void)[] = []
  let consoles: Consoles
  beforeEach(() => {
    consoles = new Consoles({} as ConstructorParameters<typeof Consoles>[0])
  })
  afterEach(() => left.splice(0).forEach((leave) => leave()))

  const enter = (principal: string, guestUuid: string): void =>
    void left.push(consoles.enter(holder(principal, guestUuid)).leave)

  const refused = (principal: string, guestUuid: string): void =>
    void expect(() => enter(principal, guestUuid), `${principal} at ${guestUuid}`)
      .to.throw()
      .with.property('code', 'too_many_consoles')

  it('let a caller open five consoles of each guest', () => {
    for (let n = 0; n < 5; n++) enter('key:1', 'a')
    expect(() => enter('key:1', 'a'))
      .to.throw()
      .with.property('code', 'too_many_consoles')
    enter('key:1', 'b')
    enter('key:2', 'a')
    left.shift()?.()
    enter('key:1', 'a')
  })

  it('let a key and the keys that it created open five consoles of each guest together', () => {
    for (let n = 0; n < 5; n++) enter(`key:1/${n}`, 'a')
    refused('key:1/9', 'a')
    enter('key:2', 'a')
  })

  it('allow ten consoles of a guest, and keep some of them for new callers and for administrators', () => {
    for (let n = 0; n < 5; n++) enter('key:1', 'a')
    for (let n = 0; n < 3; n++) enter('key:2', 'a')
    refused('key:2', 'a')
    enter('key:3', 'a')
    refused('key:4', 'a')
    enter('admin:1', 'a')
    refused('admin:1', 'a')
    enter('admin:1', 'b')
  })

  it('let a customer open 100 consoles at a gateway, and all callers together 500', () => {
    for (let n = 0; n < 100; n++) enter('key:1', `guest-${n >> 2}`)
    refused('key:1', 'another')
    for (let n = 0; n < 400; n++) enter('admin:1', `other-${n >> 2}`)
    expect(consoles.size).to.equal(500)
    refused('admin:1', 'another')
  })
})
