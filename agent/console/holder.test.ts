import { expect } from 'chai'
import { BerthError } from '../../shared/errors.js'
import type { OpenConsole } from './contract.js'
import { Holder } from './holder.js'

const limits = {
  guest: { most: 3, perShare: 2, reserve: 0 },
  host: { most: 6, perShare: 4, reserve: 0 },
  perPrincipal: 5,
}

describe('the consoles of a host', () => {
  let holder: Holder
  const open = (guestUuid: string, principal: string): OpenConsole =>
    holder.open(
      {
        guestUuid,
        principal,
        resume: '',
        received: null,
        keepMs: 60_000,
        limits,
        share: principal.replace(/\/.*/, ''),
        unlimited: principal === 'admin',
        size: { columns: 80, rows: 24 },
        place: { kind: 'socket', path: '/nowhere' },
      },
      { send: () => undefined, end: () => undefined },
    )
  const refusalOf = (guestUuid: string, principal: string): string => {
    try {
      open(guestUuid, principal)
    } catch (error) {
      return (error as BerthError).message
    }
    return ''
  }
  const openAll = (...of: readonly (readonly [guest: string, principal: string])[]): OpenConsole[] =>
    of.map(([guest, principal]) => open(guest, principal))

  beforeEach(() => {
    const nothing = (): void => undefined
    const terminal = { write: nothing, resize: nothing, pause: nothing, resume: nothing, close: nothing }
    holder = new Holder(() => terminal)
  })
  afterEach(() => holder.closeAll())

  it('are limited in number per guest', () => {
    openAll(['a', 'u1'], ['a', 'u2'], ['a', 'u3'])
    expect(refusalOf('a', 'u4')).to.include('consoles are open for this container')
    expect(refusalOf('b', 'u4')).to.equal('')
  })

  it('are limited in number per user over all guests, so that other users can still open consoles', () => {
    openAll(['a', 'u1'], ['b', 'u1'], ['c', 'u1'], ['d', 'u1'])
    expect(refusalOf('e', 'u1')).to.include('of your consoles')
    expect(refusalOf('e', 'u2')).to.equal('')
  })

  it('have one common limit for all keys that the same key created', () => {
    openAll(['a', 'u1/1'], ['a', 'u1/2'])
    expect(refusalOf('a', 'u1/3')).to.include('of your consoles are open for this container')
    openAll(['b', 'u1/3'], ['b', 'u1/4'])
    expect(refusalOf('c', 'u1/5')).to.include('of your consoles are open on this host')
    expect(refusalOf('c', 'u2')).to.equal('')
  })

  it('are limited in number for each user, even without a limit per guest', () => {
    openAll(...['a', 'b', 'c', 'd', 'e'].map((guest) => [guest, 'admin'] as const))
    expect(refusalOf('f', 'admin')).to.include('of your consoles are open on this host')
  })

  it('are limited in number for all users together', () => {
    openAll(['a', 'u1'], ['b', 'u1'], ['c', 'u2'], ['d', 'u2'], ['e', 'u3'], ['f', 'u3'])
    expect(refusalOf('g', 'u4')).to.include('on this host')
  })

  for (const [what, guest, user] of [
    ['their guest', 'a', 'u5'],
    ['their user', 'f', 'u1'],
  ] as const)
    it(`are closed, if nobody uses them, to make space for a new console of ${what}`, () => {
      const [left] = openAll(['a', 'u1'], ['a', 'u2'], ['b', 'u2'], ['c', 'u3'], ['d', 'u3'], ['e', 'u4'])
      left!.leave()
      expect(refusalOf(guest, user)).to.equal('')
      expect(holder.size).to.equal(6)
    })

  it('are not closed if another user opens a console of another guest', () => {
    const all = openAll(['a', 'u1'], ['b', 'u1'], ['c', 'u2'], ['d', 'u2'], ['e', 'u3'], ['f', 'u3'])
    for (const one of all) one.leave()
    expect(refusalOf('g', 'u4')).to.include('on this host')
    expect(holder.size).to.equal(6)
  })
})
