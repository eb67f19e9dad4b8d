import { expect } from 'chai'
import type { GuestView } from '../../../fleet/contract.js'
import { OwnerAssignment } from './owner-assignment.js'

describe('the owner of an imported container', () => {
  const first = { id: 1, uuid: 'first', name: 'web' }
  const second = { id: 2, uuid: 'second', name: 'web' }
  const owned = new Set<string>()
  const warnings: unknown[] = []
  const log = { warn: (warning: unknown) => void warnings.push(warning) }
  const initial = {
    prepare: async ({ uuid }: typeof first) => void owned.add(uuid),
    revert: async ({ uuid }: typeof first) => void owned.delete(uuid),
  }
  const viewOf = (...uuids: string[]) => ({
    findGuest: (uuid: string) => (uuids.includes(uuid) ? ({} as GuestView) : undefined),
  })
  beforeEach(() => {
    owned.clear()
    warnings.length = 0
  })

  it('loses the containers that were not created', async () => {
    const owner = new OwnerAssignment({ initial, view: viewOf(), log })
    await owner.assign(first)
    await owner.assign(second)
    expect([...owned]).to.deep.equal(['first', 'second'])
    await owner.revert()
    expect([...owned]).to.deep.equal([])
  })

  it('keeps a container that exists', async () => {
    const owner = new OwnerAssignment({ initial, view: viewOf('second'), log })
    await owner.assign(first)
    await owner.assign(second)
    await owner.revert()
    expect([...owned]).to.deep.equal(['second'])
  })

  it('loses a container whose assignment has failed, because the store may have executed it', async () => {
    const prepare = async ({ uuid }: typeof first): Promise<void> => {
      owned.add(uuid)
      throw new Error('no answer')
    }
    const owner = new OwnerAssignment({ initial: { ...initial, prepare }, view: viewOf(), log })
    await owner.assign(first).catch(() => undefined)
    await owner.revert()
    expect([...owned]).to.deep.equal([])
  })

  it('continues if a container cannot be taken away', async () => {
    const revert = async ({ uuid }: typeof first): Promise<void> => {
      if (uuid === 'first') throw new Error('no answer')
      owned.delete(uuid)
    }
    const owner = new OwnerAssignment({ initial: { ...initial, revert }, view: viewOf(), log })
    await owner.assign(first)
    await owner.assign(second)
    await owner.revert()
    expect([...owned]).to.deep.equal(['first'])
    expect(warnings).to.have.length(1)
  })
})
