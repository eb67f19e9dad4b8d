import { expect } from 'chai'
import type { BerthError } from '../../shared/errors.js'
import { admit, dropExpired, invite, noGateways, noteStart, remove, type GatewayList } from './gateway-list.js'

const first = { id: 'gw-1', name: 'one', version: '1.0.0', joinAddress: '192.0.2.1:8081', startedAtMs: 5 }
const one = noteStart(noGateways, first)
const invited = invite(one, { id: 'gw-2', name: 'two', untilMs: 100 })
const request = { id: 'gw-2', keyDigest: 'k', machine: 'machine', nowMs: 50 }
const joined = admit(invited, request)

const namesOf = (list: GatewayList): string[] => list.gateways.map(({ name }) => name)

function codeOf(change: () => unknown): string {
  try {
    change()
    return 'accepted'
  } catch (error) {
    return (error as BerthError).code
  }
}

describe('the list of gateways', () => {
  it('contains the first gateway of a fleet as soon as it has started', () => {
    expect(one.gateways).to.deep.equal([{ ...first, invitedUntilMs: 0, joinedAtMs: 5, keyDigest: '' }])
  })

  it('shows an invited gateway as joined as soon as its token was used', () => {
    expect(invited.gateways[1]).to.include({ name: 'two', invitedUntilMs: 100, joinedAtMs: 0 })
    expect(joined.gateways[1]).to.include({ name: 'two', invitedUntilMs: 0, joinedAtMs: 50, keyDigest: 'k' })
  })

  it('contains a gateway only once if its invitation is requested twice', () => {
    expect(invite(invited, { id: 'gw-2', name: 'two', untilMs: 200 })).to.equal(invited)
  })

  it('accepts a used token only from the machine that has used it', () => {
    expect(admit(joined, { ...request, nowMs: 60 })).to.equal(joined)
    expect(codeOf(() => admit(joined, { ...request, keyDigest: 'other' }))).to.equal('join_token_invalid')
  })

  it('refuses the token of a withdrawn or expired invitation', () => {
    expect(codeOf(() => admit(remove(invited, 'gw-2'), request))).to.equal('join_token_invalid')
    expect(codeOf(() => admit(dropExpired(invited, 100), request))).to.equal('join_token_invalid')
  })

  it('keeps joined gateways when it removes expired invitations', () => {
    expect(dropExpired(joined, 1000)).to.deep.equal(joined)
  })

  it('refuses the name of another gateway, even in a different case', () => {
    expect(codeOf(() => invite(one, { id: 'gw-2', name: 'ONE', untilMs: 100 }))).to.equal('name_conflict')
  })

  it('names a gateway without a name after its machine, and adds a number if this name is in use', () => {
    const list = invite(one, { id: 'gw-2', name: '', untilMs: 100 })
    expect(namesOf(admit(list, { ...request, machine: 'one' }))).to.deep.equal(['one', 'one-2'])
  })

  it('contains at most 16 gateways', () => {
    const ids = Array.from({ length: 15 }, (_, index) => `gw-x${index}`)
    const full = ids.reduce((list, id) => invite(list, { id, name: id, untilMs: 100 }), one)
    expect(codeOf(() => invite(full, { id: 'gw-2', name: '', untilMs: 100 }))).to.equal('too_many_gateways')
  })

  it('does not contain a removed gateway again after that gateway starts', () => {
    const removed = remove(joined, 'gw-2')
    expect(noteStart(removed, { ...first, id: 'gw-2' })).to.deep.equal(removed)
    expect(removed.removed).to.deep.equal(['gw-2'])
  })

  it('does not record a withdrawn invitation as a removed gateway', () => {
    expect(remove(invited, 'gw-2').removed).to.deep.equal([])
  })

  it('lists all running gateways again if the store has lost the list', () => {
    const list = noteStart(noteStart(noGateways, { ...first, id: 'gw-2', name: 'two' }), first)
    expect(namesOf(list)).to.deep.equal(['two', 'one'])
  })
})
