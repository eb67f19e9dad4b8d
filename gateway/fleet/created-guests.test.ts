import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import type { GuestCreation } from './creation-contract.js'
import { CreatedGuests, type CreatedGuestsOptions } from './created-guests.js'

const [hostId, operationId, revision] = ['host', 'operation', 7]
const response = {
  guest: Guest.fromPartial({ uuid: 'guest', status: 'creating' }),
  operation: Operation.fromPartial({ id: operationId, status: 'pending' }),
  revision,
}

/** Shows a creation. @param after the host's revision when `check` returns @returns kinds of items added to the view */
async function show(after: number): Promise<string[]> {
  const host = { revision: revision - 1 }
  const added: string[] = []
  const view = {
    hostChanged: { wait: async () => undefined },
    findState: () => host,
    apply: (_host: unknown, { $case }: { $case: string }) => void added.push($case),
  } as unknown as CreatedGuestsOptions['view']
  const owners = { check: async () => void (host.revision = after) }
  const guests = new CreatedGuests({ view, owners, cache: { keep: async () => undefined }, callTimeoutMs: 1 })
  await guests.show({ hostId, response } as unknown as GuestCreation, operationId)
  return added
}

describe('a guest whose host went offline during the creation', () => {
  it('is added to the view with the operation that created it', async () => {
    expect(await show(revision - 1)).to.deep.equal(['guest', 'operation'])
  })

  it('does not replace newer data that the host has reported', async () => {
    expect(await show(revision)).to.deep.equal([])
  })
})
