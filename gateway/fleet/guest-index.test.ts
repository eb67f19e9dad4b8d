import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { GuestIndex } from './guest-index.js'
import { HostState } from './host-state.js'

describe('the lookup of the guest with id 2 and name web', () => {
  const uuid = '0a000000-0000-4000-8000-000000000002'
  const index = new GuestIndex()
  const record = { id: 'a', version: 1, name: 'a', address: 'a:1', draining: false, createdAtMs: 0 }
  index.set(
    new HostState({ ...record, serials: ['1'], certificateNotAfterMs: 1 }),
    Guest.create({ id: 2, uuid, name: 'web' }),
  )

  for (const ref of ['2', uuid, uuid.toUpperCase(), 'web', 'Web'])
    it(`finds the guest by "${ref}"`, () => expect(index.find(ref)?.guest.id).to.equal(2))

  for (const ref of ['02', '002', '+2', '-2', '2.0', '2e0', '0x2', ' 2', '2 ', '２', '', '0', '18446744073709551618'])
    it(`does not find the guest by ${JSON.stringify(ref)}`, () => expect(index.find(ref)).to.equal(undefined))
})
