import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { CreateFromBackupOrder, SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import { GuestEvacuator, type GuestEvacuatorOptions } from './guest-evacuator.js'

describe('an evacuation whose restore has failed', () => {
  for (const [name, isRemoved, expected] of [
    ['is forgotten if the failed host was removed from the fleet', true, ['u1']],
    ['is stored until the failed host returns', false, []],
  ] as const)
    it(name, async () => {
      const forgotten: string[] = []
      const options = {
        view: { findState: () => undefined },
        watched: { isRemoved: () => isRemoved },
        evacuations: {
          list: async () => [{ id: 'e1', uuid: 'u1', fromHostId: 'a', toHostId: 'b', isReinstated: true }],
          forget: async ({ uuid }: { uuid: string }) => void forgotten.push(uuid),
        },
      }
      await new GuestEvacuator(options as unknown as GuestEvacuatorOptions).settleAll()
      expect(forgotten).to.deep.equal(expected)
    })
})

describe('the order of a restore on another host', () => {
  const evacuation = { id: 'e1', uuid: 'u1', fromHostId: 'a', toHostId: 'b', generation: 4 }

  async function submit(source: object): Promise<{ value: CreateFromBackupOrder; opened: string[] }> {
    const former = Guest.create({ id: 7, uuid: 'u1', name: 'web', virtualization: 'lxc' })
    const guest = Buffer.from(Guest.encode(former).finish()).toString('base64')
    const [orders, opened]: [SubmitOperationRequest[], string[]] = [[], []]
    const submitOperation = async (request: SubmitOperationRequest) => {
      orders.push(request)
      return { revision: 1 }
    }
    const options = {
      view: { findOperation: () => undefined, findHost: () => undefined },
      watched: { isRemoved: () => false, agent: () => ({ operations: { submitOperation } }) },
      evacuations: { find: async () => ({ ...evacuation, guest, ...source }), confirm: async () => true },
      ratios: { cpu: 0, ram: 0, disk: 0 },
      reached: async () => undefined,
    }
    const openTarget = async (id: string) => {
      opened.push(id)
      return { location: id }
    }
    const request = { operationId: 'e1', uuid: 'u1', hostId: 'a', refusedBy: [], requestedBy: 'admin', openTarget }
    await new GuestEvacuator(options as unknown as GuestEvacuatorOptions).begin(request as never)
    expect(orders.map(({ operationId, order }) => [operationId, order?.$case])).to.deep.equal([
      ['e1', 'createFromBackup'],
    ])
    return { value: (orders[0]!.order as { value: CreateFromBackupOrder }).value, opened }
  }

  it('names the standby, and opens no backup target', async () => {
    const { value, opened } = await submit({ targetId: '', backupId: '', standbyId: 's1' })
    expect(value).to.include({ standbyId: 's1', backupId: '', sourceUuid: 'u1', generation: 4 })
    expect([value.target, opened]).to.deep.equal([undefined, []])
  })

  it('names the backup and its target, and no standby', async () => {
    const { value, opened } = await submit({ targetId: 't1', backupId: 'k1' })
    expect(value).to.include({ standbyId: '', backupId: 'k1', sourceUuid: 'u1', generation: 4 })
    expect([value.target, opened]).to.deep.equal([{ location: 't1' }, ['t1']])
  })
})
